"""Gives back claims whose handlers were not started; the attempt is not used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.history import EndedAttempt, record
from jobs.engine.in_flight import Held, held_by
from jobs.engine.limit_sql import held_back_sql
from jobs.engine.locks import free_job_locks
from jobs.engine.outcomes import Failure
from jobs.engine.transactions import fetch, in_transaction
from jobs.states import AttemptEnd

LOST_ANSWER = "the answer to its claim was lost"


def release(claims: Sequence[Claim], reason: str) -> list[UUID]:
    """Put these jobs back to pending and return the ids of those that were still held.

    The caller admits what they gave up afterwards (`ReleasedCapacity.of_jobs`).
    """
    if not claims:
        return []
    return in_transaction(lambda: _release(claims, reason))


def release_lost(worker_id: UUID, known_tokens: Collection[int]) -> list[Held]:
    """Put back what this worker holds without knowing: its claims whose answer never came.

    `known_tokens` are those of all claims it does know. Call it from the thread that claims.
    Returns what was put back; the caller admits what it gave up afterwards (`ReleasedCapacity.of_jobs`).
    """
    lost: list[Held] = []
    while batch := in_transaction(lambda: _release_batch(worker_id, known_tokens)):
        lost += batch
    return lost


def _release_batch(worker_id: UUID, known_tokens: Collection[int]) -> list[Held]:
    lost = held_by(worker_id, besides=known_tokens)
    _release(lost, LOST_ANSWER)
    return lost


def _release(claims: Sequence[Claim | Held], reason: str) -> list[UUID]:
    dialect = dialects.current()
    now = dialect.now_sql()
    # Of two claims of one job only the newer can be in force.
    newest = {claim.job_id: claim for claim in sorted(claims, key=lambda claim: claim.lease_token)}
    rows, params = dialect.rows_sql(
        "r",
        {"id": Column.UUID, "token": Column.BIGINT},
        sorted((claim.job_id, claim.lease_token) for claim in newest.values()),
    )
    waits = f"(j.lock_key IS NOT NULL OR {held_back_sql('j')})"
    released = fetch(
        f"""
        UPDATE jobs_jobqueue AS j
        SET status = 'pending', attempts = j.attempts - 1, lease_token = 0, worker_id = NULL,
            claimed_at = NULL, started_at = NULL, updated_at = {now},
            ready = NOT {waits}, waiting = {waits}, admitted = false
        FROM {rows}
        WHERE j.job_id = r.id AND j.lease_token = r.token
        RETURNING job_id
        """,
        params,
    )
    ids = {dialect.read_uuid(row[0]) for row in released}
    mine = [claim for claim in newest.values() if claim.job_id in ids]
    free_job_locks([claim.job_id for claim in mine if claim.lock_key is not None])
    record(
        [
            EndedAttempt(
                firm_id=claim.firm_id,
                job_id=claim.job_id,
                series=claim.series,
                number=claim.attempts,
                worker_id=claim.worker_id,
                end=AttemptEnd.RELEASED,
                failure=Failure("Released", reason),
            )
            for claim in mine
        ]
    )
    return [claim.job_id for claim in mine]
