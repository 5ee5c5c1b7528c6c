"""Takes back the jobs of dead workers.

A worker whose lease has expired is marked dead once; from then on its own writes are refused. Its
jobs become pending again: if the handler had started, the attempt and a death are counted,
otherwise the attempt is refunded. A supervisor that outlives its worker reports which claims were
running; then nobody waits for the lease, and only the reported attempts count. A quarantined job
ran in a process of its own when its worker died: its death counts nevertheless, so that it cannot
be tried for ever. The UPDATE itself checks the lease token, so a rescuer that was suspended between
read and write changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random
from uuid import UUID

from jobs import registry
from jobs.conf import lease_seconds
from jobs.engine import dialects
from jobs.engine.claim import InFlightJob
from jobs.engine.dialects import Column
from jobs.engine.end_attempts import end_attempts
from jobs.engine.lease import heartbeat
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Failure, fingerprint
from jobs.engine.release import lock_in_flight
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.engine.transition import Transition, last_death_reason
from jobs.models.base import pack_ids, unpack_ids
from jobs.retry import RetryPolicy
from jobs.states import AttemptEnd, Status

STALE_MESSAGE = "Job timed out (stale claim)"
STALE = Failure("WorkerDied", STALE_MESSAGE)
WORKER_DIED = replace(
    STALE,
    message="the worker died, or sent no heartbeat for a whole lease, while the handler was running",
)
NOT_STARTED = Failure("NotStarted", "the worker died before the handler started")
# The handler had not started, or had ended without its outcome being stored.
NOT_RUNNING = Failure("NotRunning", "the worker died while the handler was not running")
# Rows that another transaction has locked are tried again for this long: the dead worker's last
# statement may still be under way at the server.
LOCKED_SECONDS = 1.0
LOCKED_PAUSE_SECONDS = 0.02

IsStarted = Callable[[InFlightJob], bool]


@dataclass
class RescueReport:
    """What one pass did; the caller admits the released capacity."""

    workers: int = 0
    rescued: int = 0
    dead_lettered: int = 0
    released_capacity: ReleasedCapacity = field(default_factory=ReleasedCapacity)
    ended: tuple[Transition, ...] = field(default=(), compare=False)

    def add(self, other: RescueReport) -> None:
        """Add the report of another pass."""
        self.workers += other.workers
        self.rescued += other.rescued
        self.dead_lettered += other.dead_lettered
        self.released_capacity |= other.released_capacity
        self.ended += other.ended


def rescue(
    rng: Random, *, asked_at: datetime | None = None, mark_dead: bool = True
) -> RescueReport:
    """Mark workers dead whose lease has expired and take their jobs back, in bounded batches.

    `asked_at` is the database's time just before the call. When the statement reaches the database
    much later, no worker is marked dead: heartbeats may have been delayed as well. Without
    `mark_dead` only workers that are marked already lose their jobs.
    """
    report = RescueReport()
    if mark_dead:
        report.workers = in_transaction(lambda: _mark_dead(asked_at))
    for worker_id, running in reading(_dead_workers):
        report.add(_rescue_all(worker_id, rng, lambda job: _started(job, running)))  # noqa: B023 - called at once
        in_transaction(lambda: _forget(worker_id))  # noqa: B023 - called at once
    return report


def rescue_reported(worker_id: UUID, running: Collection[int], rng: Random) -> RescueReport:
    """Take back the jobs of a worker whose process is known to be dead, before its lease is over.

    `running` are the lease tokens of the claims whose handlers ran at its death: only these count.
    """
    tokens = frozenset(running)
    report = RescueReport()
    # The new lease keeps others from marking the worker dead: they do not know what was running.
    if not heartbeat(worker_id, None):
        # The worker never registered, has deregistered, or was marked dead by others.
        return report

    def is_running(job: InFlightJob) -> bool:
        return job.lease_token in tokens

    until = time.monotonic() + LOCKED_SECONDS
    while True:
        report.add(_rescue_all(worker_id, rng, is_running, NOT_RUNNING))
        left = reading(lambda: _in_flight(worker_id))
        if not left or time.monotonic() > until:
            break
        time.sleep(LOCKED_PAUSE_SECONDS)
    # The other workers find the row, and take back jobs that are still locked, or that were claimed
    # by a statement which the server finishes only now.
    noted = pack_ids(job_id for job_id, token in left if token in tokens)
    report.workers = in_transaction(lambda: _mark_dead_now(worker_id, noted))
    return report


def _rescue_all(
    worker_id: UUID, rng: Random, is_started: IsStarted, otherwise: Failure = NOT_STARTED
) -> RescueReport:
    """Take back all jobs of the worker that are not locked."""
    report = RescueReport()
    while True:
        batch = in_transaction(lambda: _rescue_batch(worker_id, rng, is_started, otherwise))
        report.add(batch)
        if not batch.ended:
            return report


def rescue_orphans(rng: Random) -> RescueReport:
    """Take back jobs of workers that have no row, which an interrupted rescue leaves behind.

    Only the jobs' own rows then say which of them had started: without a recorded start the attempt
    is refunded. A job that kills its workers gains nothing by that, because each of them leaves a
    row that names the job.
    """
    report = RescueReport()
    for worker_id in reading(_missing_workers):
        report.add(in_transaction(lambda: _rescue_batch(worker_id, rng, _started)))  # noqa: B023 - called at once
    return report


def awaits_rescue() -> bool:
    """Say whether a worker whose lease has expired still has jobs."""
    dialect = dialects.current()
    return bool(
        reading(
            lambda: fetch(
                f"""
                SELECT 1 FROM jobs_worker w WHERE w.lease_expires_at < {dialect.now_sql()}
                  AND EXISTS (
                    SELECT 1 FROM jobs_jobqueue q WHERE q.worker_id = w.id
                      AND q.ready AND q.status IN ('claimed', 'processing')
                  )
                LIMIT 1
                """,
                [],
            )
        )
    )


def _missing_workers() -> list[UUID]:
    dialect = dialects.current()
    rows = fetch(
        f"""
        SELECT DISTINCT j.worker_id FROM jobs_jobqueue j
        WHERE j.ready AND j.status IN ('claimed', 'processing')
          AND NOT EXISTS (SELECT 1 FROM jobs_worker w WHERE w.id = j.worker_id)
          AND j.updated_at < {dialect.after_sql(dialect.now_sql(), "%s")}
        """,
        [-lease_seconds()],
    )
    return [dialect.read_uuid(row[0]) for row in rows]


def _mark_dead(asked_at: datetime | None) -> int:
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
              AND {dialect.up_longer_than_sql(lease_seconds())}
            {dialect.skip_locked}
        )
        """,
        [],
    )


def _mark_dead_now(worker_id: UUID, running: bytes) -> int:
    dialect = dialects.current()
    return run(
        f"UPDATE jobs_worker SET dead_at = {dialect.now_sql()}, running = %s"
        " WHERE id = %s AND dead_at IS NULL",
        [running, dialect.value(Column.UUID, worker_id)],
    )


def _in_flight(worker_id: UUID) -> list[tuple[UUID, int]]:
    dialect = dialects.current()
    rows = fetch(
        "SELECT job_id, lease_token FROM jobs_jobqueue"
        " WHERE ready AND worker_id = %s AND status IN ('claimed', 'processing')",
        [dialect.value(Column.UUID, worker_id)],
    )
    return [(dialect.read_uuid(job_id), token) for job_id, token in rows]


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


def _rescue_batch(
    worker_id: UUID, rng: Random, is_started: IsStarted, otherwise: Failure = NOT_STARTED
) -> RescueReport:
    jobs = lock_in_flight(worker_id)
    return _end([_transition_of(job, is_started(job), rng, otherwise=otherwise) for job in jobs])


def _started(job: InFlightJob, noted: frozenset[UUID] = frozenset()) -> bool:
    """Say whether the job's row, or its worker's note, says that its handler had started."""
    return job.ran_seconds is not None or job.job_id in noted


def _transition_of(
    job: InFlightJob, started: bool, rng: Random, *, otherwise: Failure
) -> Transition:
    if not started:
        status = Status.CANCELED if job.cancel_requested else Status.PENDING
        return Transition(job, status, AttemptEnd.RESCUED, otherwise, refund=1)
    dead = Transition(
        job,
        Status.CANCELED,
        AttemptEnd.RESCUED,
        WORKER_DIED,
        error=STALE_MESSAGE,
        died=True,
        started=True,
    )
    if job.cancel_requested:
        return dead
    declared = registry.find(job.job_type)
    reason = last_death_reason(
        deaths=job.deaths, attempts=job.attempts, max_attempts=job.max_attempts
    )
    if reason is None:
        policy = declared.retry if declared else RetryPolicy()
        return dead._replace(status=Status.PENDING, delay=policy.delay_seconds(job.attempts, rng))
    if declared is not None and not declared.dead_letter:
        return dead._replace(status=Status.FAILED)
    # Each type has its own fingerprint, and so has each reason: poison, or no attempts left.
    same = fingerprint(job.job_type, STALE.error_class, "", reason)
    return dead._replace(status=Status.DLQ, dead_letter=(reason, replace(STALE, fingerprint=same)))


def _end(transitions: list[Transition]) -> RescueReport:
    ended = end_attempts(transitions, by_worker=False)
    dead_lettered = sum(one.dead_letter is not None for one in ended)
    return RescueReport(
        rescued=len(ended) - dead_lettered,
        dead_lettered=dead_lettered,
        released_capacity=ReleasedCapacity.of_jobs(one.job for one in ended),
        ended=tuple(ended),
    )
