"""Records a schedule's runs with their jobs, and follows them until all these jobs have ended.

Jobs do not refer to their run. Maintenance reads the jobs of unfinished runs, which the purge of
jobs therefore spares. A finished run is not read again, even if one of its jobs is retried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.dialects import Column
from jobs.engine.enqueue import EnqueueResult
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.models import Schedule
from jobs.models.base import FIRST_ID
from jobs.states import LIVE, RunOutcome, Status

CHUNK = 100
# For the purge of jobs: the job belongs to an unfinished run.
IN_OPEN_RUN = """
EXISTS (
    SELECT 1 FROM jobs_schedulerun r
    WHERE r.finished_at IS NULL AND r.correlation_id = jobs_jobqueue.correlation_id
      AND jobs_jobqueue.job_id BETWEEN r.first_job_id AND r.last_job_id)
"""


@dataclass
class RunJobs:
    """The jobs that a run created: how many, and the first and last of their ids."""

    count: int = 0
    first: UUID | None = None
    last: UUID | None = None

    def add(self, results: Sequence[EnqueueResult]) -> None:
        """Add the jobs among these that are new."""
        created = [result.job_id for result in results if result.created]
        if created:
            self.count += len(created)
            self.first = min(created if self.first is None else [self.first, *created])
            self.last = max(created if self.last is None else [self.last, *created])


class _Progress(NamedTuple):
    """How far the jobs of a run have got."""

    completed: int
    failed: int
    canceled: int
    started_at: datetime | None
    finished_at: datetime | None


class _OpenRun(NamedTuple):
    """An unfinished run, and its progress as stored."""

    run_id: UUID
    job_type: str
    correlation_id: str
    jobs: int
    first: UUID
    last: UUID
    progress: _Progress


def record_run(
    schedule: Schedule,
    slot: datetime | None,
    correlation_id: str,
    jobs: RunJobs | None,
    error: str = "",
) -> None:
    """Store a run of the schedule; `jobs` is None if it was skipped.

    Must run in the transaction that enqueued its jobs.
    """
    outcome: RunOutcome | None = None
    if jobs is None:
        outcome = RunOutcome.SKIPPED
    elif error:
        outcome = RunOutcome.REFUSED
    elif not jobs.count:
        outcome = RunOutcome.NOTHING
    jobs = jobs or RunJobs()
    dialect = dialects.current()
    now = dialect.now_sql()
    run(
        f"""
        INSERT INTO jobs_schedulerun (id, firm_id, schedule_id, slot, job_type, correlation_id, jobs,
            first_job_id, last_job_id, enqueued_at, finished_at, outcome, error)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, {now}, {"NULL" if outcome is None else now}, %s, %s)
        """,
        [
            dialect.value(Column.UUID, uuid7()),
            schedule.firm_id,
            dialect.value(Column.UUID, schedule.pk),
            dialect.value(Column.TIME, slot),
            schedule.job_type,
            correlation_id,
            jobs.count,
            dialect.value(Column.UUID, jobs.first),
            dialect.value(Column.UUID, jobs.last),
            None if outcome is None else outcome.value,
            error,
        ],
    )


def follow_runs(after: UUID | None) -> UUID | None:
    """Store the progress of the next unfinished runs; return the last one's id, None at the end."""
    runs = reading(lambda: _open_runs(after or FIRST_ID))
    for one in runs:
        progress, is_over = reading(lambda: _progress(one))  # noqa: B023 - called at once
        if is_over or progress != one.progress:
            in_transaction(lambda: _store(one, progress, is_over=is_over))  # noqa: B023 - called at once
    return runs[-1].run_id if len(runs) == CHUNK else None


def _open_runs(after: UUID) -> list[_OpenRun]:
    dialect = dialects.current()
    rows = fetch(
        f"""
        SELECT id, job_type, correlation_id, jobs, first_job_id, last_job_id,
            completed, failed, canceled, started_at
        FROM jobs_schedulerun WHERE finished_at IS NULL AND id > %s ORDER BY id LIMIT {CHUNK}
        """,
        [dialect.value(Column.UUID, after)],
    )
    return [
        _OpenRun(
            dialect.read_uuid(run_id),
            job_type,
            correlation_id,
            jobs,
            dialect.read_uuid(first),
            dialect.read_uuid(last),
            _Progress(completed, failed, canceled, dialect.read_time(started_at), None),
        )
        for run_id, job_type, correlation_id, jobs, first, last, completed, failed, canceled, started_at in rows
    ]


def _progress(one: _OpenRun) -> tuple[_Progress, bool]:
    """Return how far the run's jobs have got, and whether all of them have ended."""
    dialect = dialects.current()
    found = fetch(
        """
        SELECT status, count(*), min(started_at), max(completed_at) FROM jobs_jobqueue
        WHERE job_id BETWEEN %s AND %s AND correlation_id = %s AND job_type = %s GROUP BY status
        """,
        [
            dialect.value(Column.UUID, one.first),
            dialect.value(Column.UUID, one.last),
            one.correlation_id,
            one.job_type,
        ],
    )
    counts = {Status(status): count for status, count, *_ in found}
    starts = [one.progress.started_at, *(dialect.read_time(row[2]) for row in found)]
    ends = [dialect.read_time(row[3]) for row in found]
    deleted = one.jobs - sum(counts.values())
    progress = _Progress(
        counts.get(Status.COMPLETED, 0),
        counts.get(Status.FAILED, 0) + counts.get(Status.DLQ, 0),
        counts.get(Status.CANCELED, 0) + max(deleted, 0),
        min((start for start in starts if start), default=None),
        None,
    )
    if any(counts.get(status) for status in LIVE):
        return progress, False
    finished_at = max((end for end in ends if end), default=None) or database_now()
    return progress._replace(finished_at=finished_at), True


def _store(one: _OpenRun, progress: _Progress, *, is_over: bool) -> None:
    outcome = None
    if is_over:
        outcome = RunOutcome.CANCELED if progress.canceled else RunOutcome.COMPLETED
        outcome = RunOutcome.FAILED if progress.failed else outcome
    dialect = dialects.current()
    run(
        """
        UPDATE jobs_schedulerun
        SET completed = %s, failed = %s, canceled = %s, started_at = %s, finished_at = %s, outcome = %s
        WHERE id = %s AND finished_at IS NULL
        """,
        [
            progress.completed,
            progress.failed,
            progress.canceled,
            dialect.value(Column.TIME, progress.started_at),
            dialect.value(Column.TIME, progress.finished_at),
            None if outcome is None else outcome.value,
            dialect.value(Column.UUID, one.run_id),
        ],
    )
