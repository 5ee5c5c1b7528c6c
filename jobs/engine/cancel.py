"""Stops a job: a pending one at once, a running one at its next checkpoint."""

from __future__ import annotations

from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.fan_in import leave_fan_ins
from jobs.engine.history import Counted, count
from jobs.engine.locks import free_job_locks
from jobs.engine.lookup import in_sight
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.errors import WrongState
from jobs.models import JobQueue
from jobs.states import IN_FLIGHT
from tenants.audit import SERVICE, Actor, record_operation

CANCELED_MESSAGE = "canceled by request"


def cancel(job_id: UUID, *, by: Actor = SERVICE, reason: str = "") -> bool:
    """Cancel the job. True: it is canceled; False: it runs and was asked to stop.

    Asking a running job again changes nothing.

    Raises:
        UnknownJob: no such job in sight.
        WrongState: the job is over.
    """
    return in_transaction(lambda: _cancel(job_id, by, reason), savepoint=True)


def _cancel(job_id: UUID, by: Actor, reason: str) -> bool:
    job = in_sight(JobQueue, job_id)
    if _cancel_pending(job_id):
        if job.lock_key is not None:
            free_job_locks([job_id])
        leave_fan_ins([(job.firm_id, job_id)])
        count([Counted(firm_id=job.firm_id, category=job.category, word="canceled")])
        _record(job, by, reason, {"status": "canceled"})
        return True
    if job.status not in IN_FLIGHT:
        raise WrongState(f"job {job_id} is over: {job.status}")
    if _request(job_id):
        _record(job, by, reason, {"cancel_requested": True})
    return False


def _cancel_pending(job_id: UUID) -> bool:
    dialect = dialects.current()
    now = dialect.now_sql()
    return bool(
        fetch(
            f"""
            UPDATE jobs_jobqueue
            SET status = 'canceled', last_error = %s, completed_at = {now}, updated_at = {now},
                cancel_requested_at = {now}, ready = %s, waiting = %s, live_key = NULL
            WHERE job_id = %s AND status = 'pending'
            RETURNING job_id
            """,
            [CANCELED_MESSAGE, False, False, dialect.value(Column.UUID, job_id)],
        )
    )


def _request(job_id: UUID) -> bool:
    """Ask the running job to stop. False: it was asked before."""
    dialect = dialects.current()
    now = dialect.now_sql()
    return (
        run(
            f"""
            UPDATE jobs_jobqueue
            SET cancel_requested_at = {now}, updated_at = {now}
            WHERE job_id = %s AND cancel_requested_at IS NULL
            """,
            [dialect.value(Column.UUID, job_id)],
        )
        == 1
    )


def _record(job: JobQueue, by: Actor, reason: str, after: dict[str, object]) -> None:
    record_operation(
        by,
        "job.cancel",
        firm_id=job.firm_id,
        target=("job", job.job_id),
        reason=reason,
        before={"status": job.status},
        after=after,
    )


def requested_among(job_ids: list[UUID]) -> set[UUID]:
    """Return those of these running jobs that were asked to stop."""
    if not job_ids:
        return set()
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"id": Column.UUID}, [(job_id,) for job_id in job_ids])
    found = reading(
        lambda: fetch(
            f"SELECT j.job_id FROM jobs_jobqueue j JOIN {rows} ON j.job_id = r.id"
            " WHERE j.cancel_requested_at IS NOT NULL",
            params,
        )
    )
    return {dialect.read_uuid(row[0]) for row in found}
