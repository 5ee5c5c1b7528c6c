"""Takes the jobs of dead workers back.

A worker whose lease is over is marked dead once; from then on its own writes are refused. Its jobs
go round again: those whose handler had started with the attempt counted, the others with it given
back. Every condition stands in the UPDATE itself, so a rescuer that slept moves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from jobs import registry
from jobs.conf import lease_seconds
from jobs.engine import dialects
from jobs.engine.bury import Death, bury
from jobs.engine.dialects import Column
from jobs.engine.history import Counted, EndedAttempt, count, record
from jobs.engine.locks import free_job_locks
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.outcomes import Failure
from jobs.retry import RetryPolicy
from jobs.states import AttemptEnd, DeadReason, Status

BATCH = 200
STALE_MESSAGE = "Job timed out (stale claim)"


@dataclass(frozen=True)
class Held:
    """A job in flight whose worker is dead."""

    job_id: UUID
    firm_id: int
    category: str
    job_type: str
    attempts: int
    max_attempts: int
    series: int
    lease_token: int
    lock_key: str | None
    canceled: bool
    worker_id: UUID


@dataclass
class RescueReport:
    """What one pass did; `freed_locks` are for the caller to admit."""

    workers: int = 0
    rescued: int = 0
    buried: int = 0
    freed_locks: frozenset[tuple[int, str]] = frozenset()

    def add(self, other: RescueReport) -> None:
        """Take in another pass."""
        self.workers += other.workers
        self.rescued += other.rescued
        self.buried += other.buried
        self.freed_locks |= other.freed_locks


def rescue(rng: Random) -> RescueReport:
    """Mark workers dead whose lease is over and take their jobs back, in bounded batches."""
    report = RescueReport(workers=in_transaction(_mark_dead))
    for worker_id, running in reading(_dead_workers):
        while True:
            batch = in_transaction(lambda: _rescue_batch(worker_id, running, rng))  # noqa: B023 - called at once
            report.add(batch)
            if not batch.rescued and not batch.buried:
                break
        in_transaction(lambda: _forget(worker_id))  # noqa: B023 - called at once
    return report


def rescue_orphans(rng: Random) -> RescueReport:
    """Take back jobs held by workers that have no row: what an interrupted rescue left behind."""
    report = RescueReport()
    for owner in reading(_orphans_owners):
        report.add(in_transaction(lambda: _rescue_batch(owner, None, rng)))  # noqa: B023 - called at once
    return report


def _orphans_owners() -> list[UUID]:
    dialect = dialects.current()
    owners = fetch(
        f"""
        SELECT DISTINCT j.worker_id FROM jobs_jobqueue j
        WHERE j.ready AND j.status IN ('claimed', 'processing')
          AND NOT EXISTS (SELECT 1 FROM jobs_worker w WHERE w.id = j.worker_id)
          AND j.updated_at < {dialect.after_sql(dialect.now_sql(), "%s")}
        """,
        [-lease_seconds()],
    )
    return [dialect.read_uuid(row[0]) for row in owners]


def _mark_dead() -> int:
    dialect = dialects.current()
    now = dialect.now_sql()
    return run(
        f"""
        UPDATE jobs_worker SET dead_at = {now}
        WHERE id IN (
            SELECT id FROM jobs_worker
            WHERE dead_at IS NULL AND lease_expires_at < {now}
              AND {dialect.database_is_settled_sql(lease_seconds())}
            {dialect.skip_locked}
        )
        """,
        [],
    )


def _dead_workers() -> list[tuple[UUID, frozenset[UUID]]]:
    dialect = dialects.current()
    rows = fetch("SELECT id, running FROM jobs_worker WHERE dead_at IS NOT NULL", [])
    return [(dialect.read_uuid(row[0]), _ids(row[1])) for row in rows]


def _ids(running: Any) -> frozenset[UUID]:
    listed = json.loads(running) if isinstance(running, str) else running
    return frozenset(UUID(job_id) for job_id in listed)


def _forget(worker_id: UUID) -> None:
    dialect = dialects.current()
    run(
        "DELETE FROM jobs_worker WHERE id = %s AND dead_at IS NOT NULL",
        [dialect.value(Column.UUID, worker_id)],
    )


def _rescue_batch(worker_id: UUID, running: frozenset[UUID] | None, rng: Random) -> RescueReport:
    """Take back one batch; `running` None counts every attempt."""
    held = held_by(worker_id)
    if not held:
        return RescueReport()
    decided = [_decide(job, running is None or job.job_id in running, rng) for job in held]
    taken = _take_back(decided)
    return _write_consequences([one for one in decided if one.job.job_id in taken])


def held_by(worker_id: UUID, *, besides: Collection[int] = ()) -> list[Held]:
    """Return, and lock, a batch of the worker's jobs in flight; not those with these tokens."""
    dialect = dialects.current()
    tokens, params = dialect.rows_sql(
        "r", {"token": Column.BIGINT}, [(token,) for token in besides]
    )
    rows = fetch(
        f"""
        SELECT job_id, firm_id, category, job_type, attempts, max_attempts, series, lease_token,
            lock_key, cancel_requested_at IS NOT NULL
        FROM jobs_jobqueue
        WHERE ready AND worker_id = %s AND status IN ('claimed', 'processing')
          AND lease_token NOT IN (SELECT r.token FROM {tokens})
        ORDER BY job_id LIMIT {BATCH} {dialect.skip_locked}
        """,
        [dialect.value(Column.UUID, worker_id), *params],
    )
    return [
        Held(
            job_id=dialect.read_uuid(row[0]),
            firm_id=row[1],
            category=row[2],
            job_type=row[3],
            attempts=row[4],
            max_attempts=row[5],
            series=row[6],
            lease_token=row[7],
            lock_key=row[8],
            canceled=bool(row[9]),
            worker_id=worker_id,
        )
        for row in rows
    ]


@dataclass(frozen=True)
class _Decision:
    job: Held
    started: bool
    status: Status
    delay: float


def _decide(job: Held, started: bool, rng: Random) -> _Decision:
    if job.canceled:
        return _Decision(job, started, Status.CANCELED, 0.0)
    if not started:
        return _Decision(job, started, Status.PENDING, 0.0)
    declared = registry.find(job.job_type)
    if job.attempts >= job.max_attempts:
        to_review = declared is None or declared.dead_letter
        return _Decision(job, started, Status.DLQ if to_review else Status.FAILED, 0.0)
    policy = declared.retry if declared else RetryPolicy()
    return _Decision(job, started, Status.PENDING, policy.delay_seconds(job.attempts, rng))


def _take_back(decided: Sequence[_Decision]) -> set[UUID]:
    dialect = dialects.current()
    now = dialect.now_sql()
    rows, params = dialect.rows_sql(
        "r",
        {
            "id": Column.UUID,
            "token": Column.BIGINT,
            "next": Column.TEXT,
            "delay": Column.FLOAT,
            "refund": Column.INTEGER,
            "error": Column.TEXT,
        },
        [
            (
                one.job.job_id,
                one.job.lease_token,
                one.status.value,
                one.delay,
                0 if one.started else 1,
                STALE_MESSAGE if one.started else None,
            )
            for one in decided
        ],
    )
    again = "r.next = 'pending'"
    taken = fetch(
        f"""
        UPDATE jobs_jobqueue AS j
        SET status = r.next, attempts = j.attempts - r.refund,
            deaths = j.deaths + 1 - r.refund,
            last_error = COALESCE(r.error, j.last_error),
            scheduled_at = CASE WHEN {again} AND r.refund = 0
                THEN {dialect.after_sql(now, "r.delay")} ELSE j.scheduled_at END,
            completed_at = CASE WHEN {again} THEN NULL ELSE {now} END,
            ready = ({again} AND j.lock_key IS NULL),
            waiting = ({again} AND j.lock_key IS NOT NULL),
            live_key = CASE WHEN {again} THEN j.live_key END,
            lease_token = 0, worker_id = NULL, updated_at = {now}
        FROM {rows}
        WHERE j.job_id = r.id AND j.lease_token = r.token
        RETURNING job_id
        """,
        params,
    )
    return {dialect.read_uuid(row[0]) for row in taken}


def _write_consequences(taken: Sequence[_Decision]) -> RescueReport:
    failure = Failure("StaleClaim", STALE_MESSAGE, fingerprint="stale-claim")
    keyed = [one.job for one in taken if one.job.lock_key is not None]
    free_job_locks([job.job_id for job in keyed])
    record(
        [
            EndedAttempt(
                firm_id=one.job.firm_id,
                job_id=one.job.job_id,
                series=one.job.series,
                number=one.job.attempts,
                worker_id=one.job.worker_id,
                end=AttemptEnd.RESCUED,
                failure=failure if one.started else Failure("NotStarted", "its worker died first"),
            )
            for one in taken
        ]
    )
    dead = [one.job for one in taken if one.status is Status.DLQ]
    bury(
        [
            Death(
                firm_id=job.firm_id,
                job_id=job.job_id,
                series=job.series,
                reason=DeadReason.STALE,
                failure=failure,
            )
            for job in dead
        ]
    )
    count(
        Counted(firm_id=one.job.firm_id, category=one.job.category, word=one.status.value)
        for one in taken
        if one.status is not Status.PENDING
    )
    return RescueReport(
        rescued=len(taken) - len(dead),
        buried=len(dead),
        freed_locks=frozenset((job.firm_id, str(job.lock_key)) for job in keyed),
    )
