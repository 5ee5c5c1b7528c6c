"""Operations on jobs: retry, cancel."""

from __future__ import annotations

from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.end_attempts import end_pending
from jobs.engine.job_wait import read_job
from jobs.engine.requeue import Restart
from jobs.engine.transactions import run
from jobs.errors import WrongState
from jobs.models import JobQueue
from jobs.operations.dead_letters import close_as_reprocessed, requeue
from jobs.operations.operation import By, audit, get_for_update, operation
from jobs.states import IN_FLIGHT, Status

CANCELED_MESSAGE = "canceled by request"


@operation
def retry(job: JobQueue | UUID | str, *, by: By = None, reason: str = "") -> JobQueue:
    """Put a dead-lettered, failed or canceled job back to pending, its attempts at zero.

    An open dead letter of the job closes as reprocessed. Returns the job after the operation.

    Raises:
        UnknownJob: no such job in scope.
        WrongState: the job is in another status (KeyHeld: a live job holds its idempotency key).
    """
    row = get_for_update(JobQueue, job)
    requeued = requeue(row.pk, Restart())
    close_as_reprocessed(row, requeued.series, by, reason)
    audit(
        "job.retry",
        row,
        by,
        reason,
        before={"status": row.status, "series": row.series, "attempts": row.attempts},
        after={"status": "pending", "series": requeued.series, "attempts": 0},
    )
    return read_job(row.pk)


@operation
def cancel(job: JobQueue | UUID | str, *, by: By = None, reason: str = "") -> JobQueue:
    """Cancel a pending job at once; ask a running one to stop at its next checkpoint.

    Returns the job after the operation: `canceled`, or running with `cancel_requested_at` set.
    Asking a running job again changes nothing.

    Raises:
        UnknownJob: no such job in scope.
        WrongState: the job is over.
    """
    row = get_for_update(JobQueue, job)
    after: dict[str, object] = {}
    if _cancel_pending(row.pk):
        after = {"status": "canceled"}
    elif row.status not in IN_FLIGHT:
        raise WrongState(f"job {row.pk} is over: {row.status}")
    elif _request_cancel(row.pk):
        after = {"cancel_requested": True}
    if after:
        audit("job.cancel", row, by, reason, before={"status": row.status}, after=after)
    return read_job(row.pk)


def _cancel_pending(job_id: UUID) -> bool:
    dialect = dialects.current()
    ended = end_pending(
        Status.CANCELED,
        CANCELED_MESSAGE,
        "job_id = %s",
        [dialect.value(Column.UUID, job_id)],
        also=f", cancel_requested_at = {dialect.now_sql()}",
    )
    return ended == 1


def _request_cancel(job_id: UUID) -> bool:
    """Ask the running job to stop. False: it was asked before."""
    dialect = dialects.current()
    now = dialect.now_sql()
    touched = run(
        f"""
        UPDATE jobs_jobqueue
        SET cancel_requested_at = {now}, updated_at = {now}
        WHERE job_id = %s AND cancel_requested_at IS NULL
        """,
        [dialect.value(Column.UUID, job_id)],
    )
    return touched == 1
