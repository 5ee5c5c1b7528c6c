"""Reads a worker's claims, and gives back those whose handlers did not start, uncounted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.claim import Claim, InFlightJob
from jobs.engine.dialects import Column
from jobs.engine.end_attempts import end_attempts
from jobs.engine.outcomes import Failure
from jobs.engine.transactions import fetch, in_transaction, reading
from jobs.engine.transition import Transition
from jobs.states import AttemptEnd, Status

BATCH = 200
LOST_ANSWER = "the answer to the claim was lost"


def release(claims: Sequence[Claim], reason: str) -> dict[UUID, Status]:
    """Put these jobs back to pending, except those that others hold or lock.

    A job whose cancel was requested is canceled instead: pending, it would wait for what holds it
    back. Returns the new status of each job that was put back. The caller admits their capacity
    afterwards (`ReleasedCapacity.of_jobs`).
    """
    if not claims:
        return {}
    return in_transaction(lambda: _release(claims, reason))


def release_lost(
    worker_id: UUID, known_tokens: Collection[int]
) -> tuple[list[tuple[InFlightJob, Status]], bool]:
    """Put back the worker's claims whose response it never received, as `release` does.

    Returns their jobs, each with its new status, and whether there are more, which another
    transaction has locked: call again later. `known_tokens` are the tokens of all claims that the
    worker knows. Call this from the thread that claims, because a claim under way would seem lost.
    The caller admits the capacity afterwards (`ReleasedCapacity.of_jobs`).
    """
    lost: list[tuple[InFlightJob, Status]] = []
    while batch := in_transaction(lambda: _release_batch(worker_id, known_tokens)):
        lost += batch
    return lost, reading(lambda: _holds_others(worker_id, known_tokens))


def _release_batch(
    worker_id: UUID, known_tokens: Collection[int]
) -> list[tuple[InFlightJob, Status]]:
    lost = lock_in_flight(worker_id, except_tokens=known_tokens)
    statuses = _release(lost, LOST_ANSWER)
    return [(job, statuses[job.job_id]) for job in lost]


def _release(jobs: Sequence[Claim | InFlightJob], reason: str) -> dict[UUID, Status]:
    failure = Failure("Released", reason)
    transitions = [
        Transition(job, Status.PENDING, AttemptEnd.RELEASED, failure, refund=1, cancelable=True)
        for job in jobs
    ]
    return {one.job.job_id: one.status for one in end_attempts(transitions, by_worker=False)}


def lock_in_flight(worker_id: UUID, *, except_tokens: Collection[int] = ()) -> list[InFlightJob]:
    """Return, and lock, a batch of the worker's jobs in flight, without those of these tokens."""
    dialect = dialects.current()
    where, params = _in_flight_sql(worker_id, except_tokens)
    rows = fetch(
        f"""
        SELECT job_id, admitted, cancel_requested_at IS NOT NULL,
            {dialect.seconds_between_sql("scheduled_at", "claimed_at")},
            {dialect.seconds_between_sql("started_at", dialect.now_sql())},
            firm_id, category, job_type, correlation_id, attempts, max_attempts, series, deaths,
            lease_token, lock_key, lock_counted_by, limit_key
        FROM jobs_jobqueue WHERE {where}
        ORDER BY job_id LIMIT {BATCH} {dialect.skip_locked}
        """,
        params,
    )
    return [
        InFlightJob(
            dialect.read_uuid(job_id),
            worker_id,
            bool(admitted),
            bool(cancel_requested),
            max(float(waited or 0.0), 0.0),
            ran,
            *as_stored,
        )
        for job_id, admitted, cancel_requested, waited, ran, *as_stored in rows
    ]


def _holds_others(worker_id: UUID, except_tokens: Collection[int]) -> bool:
    where, params = _in_flight_sql(worker_id, except_tokens)
    return bool(fetch(f"SELECT 1 FROM jobs_jobqueue WHERE {where} LIMIT 1", params))


def _in_flight_sql(worker_id: UUID, except_tokens: Collection[int]) -> tuple[str, list[object]]:
    """Return the condition of the worker's jobs in flight without those of these tokens."""
    dialect = dialects.current()
    tokens, params = dialect.rows_sql(
        "r", {"token": Column.BIGINT}, [(token,) for token in except_tokens]
    )
    sql = (
        "ready AND worker_id = %s AND status IN ('claimed', 'processing')"
        f" AND lease_token NOT IN (SELECT r.token FROM {tokens})"
    )
    return sql, [dialect.value(Column.UUID, worker_id), *params]
