"""Takes the jobs of dead workers back.

A worker whose lease is over is marked dead once; from then on its own writes are refused. Its jobs
go round again: those whose handler had started with the attempt and a death counted, the others
with the attempt given back. A suspect ran in a process of its own when its worker fell: its death
counts, so that it cannot go round for ever, but it pays no second attempt for what may have been
another's fault. Every condition stands in the UPDATE itself, so a rescuer that slept moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from uuid import UUID

from jobs import registry
from jobs.conf import lease_seconds
from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.fan_in import leave_fan_ins
from jobs.engine.history import Counted, EndedAttempt, count, record
from jobs.engine.in_flight import Held, held_by
from jobs.engine.limit_sql import held_back_sql
from jobs.engine.locks import free_job_locks
from jobs.engine.open_dead_letter import Death, bury
from jobs.engine.outcomes import Failure
from jobs.engine.poison import end_by_death, is_suspect
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.models.ids import unpack_ids
from jobs.retry import RetryPolicy
from jobs.states import AttemptEnd, DeadReason, Status

STALE_MESSAGE = "Job timed out (stale claim)"
STALE = Failure("StaleClaim", STALE_MESSAGE, fingerprint="stale-claim")
NOT_STARTED = Failure("NotStarted", "its worker died first")
ALONE = Failure("StaleSuspect", "its worker died; it ran in a process of its own")


@dataclass(frozen=True)
class Rescued:
    """An attempt that ended with its worker, and what its job became."""

    job: Held
    status: Status
    error_class: str


@dataclass
class RescueReport:
    """What one pass did; `released_capacity` is for the caller to admit."""

    workers: int = 0
    rescued: int = 0
    buried: int = 0
    released_capacity: ReleasedCapacity = field(default_factory=ReleasedCapacity)
    attempts: tuple[Rescued, ...] = field(default=(), compare=False)

    @property
    def ended(self) -> tuple[tuple[Held, Status], ...]:
        """The jobs that will not go round again, with the status they ended in."""
        return tuple(
            (one.job, one.status) for one in self.attempts if one.status is not Status.PENDING
        )

    def add(self, other: RescueReport) -> None:
        """Take in another pass."""
        self.workers += other.workers
        self.rescued += other.rescued
        self.buried += other.buried
        self.released_capacity |= other.released_capacity
        self.attempts += other.attempts


def rescue(rng: Random, *, asked_at: datetime | None = None) -> RescueReport:
    """Mark workers dead whose lease is over and take their jobs back, in bounded batches.

    With `asked_at`, the database's time just before, nobody is marked dead where the question was
    long on its way: whatever held it up may have held up the heartbeats too.
    """
    report = RescueReport(workers=in_transaction(lambda: _mark_dead(asked_at)))
    for worker_id, running in reading(_dead_workers):
        while True:
            batch = in_transaction(lambda: _rescue_batch(worker_id, running, rng))  # noqa: B023 - called at once
            report.add(batch)
            if not batch.rescued and not batch.buried:
                break
        in_transaction(lambda: _forget(worker_id))  # noqa: B023 - called at once
    return report


def rescue_orphans(rng: Random) -> RescueReport:
    """Take back jobs held by workers that have no row: what an interrupted rescue left behind.

    Nothing says any more which of them were started, save their status: a job that is `claimed`
    gets the benefit of the doubt. Poison gains nothing by it: while a job kills its workers, each
    leaves the row that names it.
    """
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


def _mark_dead(asked_at: datetime | None = None) -> int:
    dialect = dialects.current()
    now = dialect.now_sql()
    in_time = "1 = 1"
    if asked_at is not None:
        latest = dialect.after_sql(dialect.time_literal(asked_at), str(lease_seconds() / 4))
        in_time = f"{now} < {latest}"
    return run(
        f"""
        UPDATE jobs_worker SET dead_at = {now}
        WHERE id IN (
            SELECT id FROM jobs_worker
            WHERE dead_at IS NULL AND lease_expires_at < {now} AND {in_time}
              AND {dialect.database_is_settled_sql(lease_seconds())}
            {dialect.skip_locked}
        )
        """,
        [],
    )


def _dead_workers() -> list[tuple[UUID, frozenset[UUID]]]:
    dialect = dialects.current()
    rows = fetch("SELECT id, running FROM jobs_worker WHERE dead_at IS NOT NULL", [])
    return [(dialect.read_uuid(row[0]), frozenset(unpack_ids(row[1]))) for row in rows]


def _forget(worker_id: UUID) -> None:
    dialect = dialects.current()
    run(
        "DELETE FROM jobs_worker WHERE id = %s AND dead_at IS NOT NULL",
        [dialect.value(Column.UUID, worker_id)],
    )


def _rescue_batch(worker_id: UUID, running: frozenset[UUID] | None, rng: Random) -> RescueReport:
    """Take back one batch; `running` None: only a row's own start is known."""
    held = held_by(worker_id)
    if not held:
        return RescueReport()
    decided = [_decide(job, _started(job, running), rng) for job in held]
    taken = _take_back(decided)
    return _write_consequences([one for one in decided if one.job.job_id in taken])


@dataclass(frozen=True)
class _Decision:
    job: Held
    status: Status
    started: bool
    refunded: bool
    delay: float = 0.0
    reason: DeadReason | None = None

    @property
    def failure(self) -> Failure:
        """What is kept of the attempt."""
        if not self.started:
            return NOT_STARTED
        return ALONE if self.refunded else STALE


def _started(job: Held, running: frozenset[UUID] | None) -> bool:
    return job.ran_seconds is not None or (running is not None and job.job_id in running)


def _decide(job: Held, started: bool, rng: Random) -> _Decision:
    refunded = not started or is_suspect(job.deaths)
    if job.canceled:
        return _Decision(job, Status.CANCELED, started, refunded)
    if not started:
        return _Decision(job, Status.PENDING, started, refunded)
    declared = registry.find(job.job_type)
    attempts = job.attempts - refunded
    reason = end_by_death(deaths=job.deaths, attempts=attempts, max_attempts=job.max_attempts)
    if reason is not None:
        to_review = declared is None or declared.dead_letter
        status = Status.DLQ if to_review else Status.FAILED
        return _Decision(job, status, started, refunded, reason=reason)
    policy = declared.retry if declared else RetryPolicy()
    delay = policy.delay_seconds(job.attempts, rng)
    return _Decision(job, Status.PENDING, started, refunded, delay)


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
            "died": Column.INTEGER,
            "refund": Column.INTEGER,
            "error": Column.TEXT,
        },
        [
            (
                one.job.job_id,
                one.job.lease_token,
                one.status.value,
                one.delay,
                int(one.started),
                int(one.refunded),
                STALE_MESSAGE if one.started else None,
            )
            for one in decided
        ],
    )
    again = "r.next = 'pending'"
    waits = f"(j.lock_key IS NOT NULL OR {held_back_sql('j')})"
    taken = fetch(
        f"""
        UPDATE jobs_jobqueue AS j
        SET status = r.next, attempts = j.attempts - r.refund,
            deaths = j.deaths + r.died,
            last_error = COALESCE(r.error, j.last_error),
            scheduled_at = CASE WHEN {again} AND r.died = 1
                THEN {dialect.after_sql(now, "r.delay")} ELSE j.scheduled_at END,
            completed_at = CASE WHEN {again} THEN NULL ELSE {now} END,
            ready = ({again} AND NOT {waits}), waiting = ({again} AND {waits}),
            admitted = false,
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
    free_job_locks([one.job.job_id for one in taken if one.job.lock_key is not None])
    record(
        [
            EndedAttempt(
                firm_id=one.job.firm_id,
                job_id=one.job.job_id,
                series=one.job.series,
                number=one.job.attempts,
                worker_id=one.job.worker_id,
                end=AttemptEnd.RESCUED,
                failure=one.failure,
            )
            for one in taken
        ]
    )
    dead = [
        Death(
            firm_id=one.job.firm_id,
            job_id=one.job.job_id,
            series=one.job.series,
            reason=one.reason,
            failure=STALE,
        )
        for one in taken
        if one.status is Status.DLQ and one.reason is not None
    ]
    bury(dead)
    ended = tuple((one.job, one.status) for one in taken if one.status is not Status.PENDING)
    leave_fan_ins((job.firm_id, job.job_id) for job, _ in ended)
    count(
        Counted(firm_id=job.firm_id, category=job.category, word=status.value)
        for job, status in ended
    )
    return RescueReport(
        rescued=len(taken) - len(dead),
        buried=len(dead),
        released_capacity=ReleasedCapacity.of_jobs(one.job for one in taken),
        attempts=tuple(Rescued(one.job, one.status, one.failure.error_class) for one in taken),
    )
