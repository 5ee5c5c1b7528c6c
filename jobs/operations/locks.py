"""Operations on locks."""

from __future__ import annotations

from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import run
from jobs.errors import WrongState
from jobs.models import ConcurrencyLock
from jobs.operations.operation import By, audit, get_for_update, operation, require_reason


@operation
def force_release(lock: ConcurrencyLock | UUID | str, reason: str, *, by: By = None) -> None:
    """Release a lock that its holder fails to release. If a running job holds it, cancel the job.

    Raises:
        ReasonMissing: no reason given.
        UnknownJob: no such lock in scope.
        WrongState: a job in flight holds it.
    """
    require_reason(reason)
    row = get_for_update(ConcurrencyLock, lock)
    dialect = dialects.current()
    deleted = run(
        f"""
        DELETE FROM jobs_concurrencylock
        WHERE id = %s AND NOT (holder_id LIKE 'job:%%' AND EXISTS (
            SELECT 1 FROM jobs_jobqueue j WHERE j.ready
              AND j.job_id = {dialect.job_of_holder_sql("jobs_concurrencylock.holder_id")}))
        """,
        [dialect.value(Column.UUID, row.pk)],
    )
    if deleted != 1:
        raise WrongState(f"lock {row.lock_key} belongs to a live job: cancel the job instead")
    before = {"lock_key": row.lock_key, "holder_id": row.holder_id}
    audit("lock.force_release", row, by, reason, before=before)
