"""Operations on a job: retry, cancel; and why it waits."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.clock import database_now
from jobs.engine.end_attempts import end_pending
from jobs.engine.job_wait import read_job
from jobs.engine.requeue import Restart
from jobs.engine.transactions import reading
from jobs.errors import WrongState
from jobs.models import JobQueue
from jobs.operations.dead_letters import close_as_reprocessed, requeue
from jobs.operations.operation import By, JobGiven, audit, get_for_update, get_row, operation
from jobs.queries import why_waiting as waiting
from jobs.queries.why_waiting import WaitReason
from jobs.states import CANCELED_MESSAGE, IN_FLIGHT, Status


def why_waiting(job: JobGiven) -> list[WaitReason]:
    """Return what keeps a pending job from running, in the order an operator would check it.

    Empty for any other status, and for a job that a worker will claim when it is free.

    Raises:
        UnknownJob: no such job in scope.
    """
    row = job if isinstance(job, JobQueue) else reading(lambda: get_row(JobQueue, job))
    return waiting.why_waiting(row)


@operation
def retry(job: JobGiven, *, by: By = None, reason: str = "") -> JobQueue:
    """Put a dead-lettered, failed or canceled job back to pending, its attempts at zero.

    An open dead letter of the job closes as reprocessed. Returns the job after the operation.

    Raises:
        UnknownJob: no such job in scope.
        WrongState: the job is in another status (KeyHeld: a live job holds its idempotency key).
    """
    row = get_for_update(JobQueue, job)
    requeued = requeue(row, Restart())
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
def cancel(job: JobGiven, *, by: By = None, reason: str = "") -> JobQueue:
    """Cancel a pending job at once; ask a running one to stop at its next checkpoint.

    Returns the job after the operation: `canceled`, or running with `cancel_requested_at` set.
    Asking a running job again changes nothing.

    Raises:
        UnknownJob: no such job in scope.
        WrongState: the job is over.
    """
    row = get_for_update(JobQueue, job)
    before = {"status": row.status}
    if cancel_pending([row.pk]):
        audit("job.cancel", row, by, reason, before=before, after={"status": "canceled"})
    elif row.status not in IN_FLIGHT:
        raise WrongState(f"job {row.pk} is over: it is {row.status}")
    elif row.cancel_requested_at is None:
        now = database_now()
        rows = JobQueue.objects.unscoped("the job is locked")
        rows.filter(firm_id=row.firm_id, pk=row.pk).update(cancel_requested_at=now, updated_at=now)
        audit("job.cancel", row, by, reason, before=before, after={"cancel_requested": True})
    return read_job(row.pk)


def cancel_pending(job_ids: Iterable[UUID]) -> int:
    """Cancel those of these jobs that are pending; return how many."""
    ids, params = dialects.ids_sql(job_ids)
    return end_pending(
        Status.CANCELED,
        CANCELED_MESSAGE,
        f"job_id IN (SELECT r.id FROM {ids})",
        params,
        also=f", cancel_requested_at = {dialects.current().now_sql()}",
    )
