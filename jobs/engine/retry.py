"""An operator sends one job round again."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from jobs.engine.admission import admit
from jobs.engine.lookup import in_sight
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.resolve import close_as_reprocessed
from jobs.engine.restart import Restart, Restarted, restart
from jobs.engine.transactions import in_transaction
from jobs.engine.wakeup import wake
from jobs.models import JobQueue
from tenants.audit import SERVICE, Actor, record_operation


def retry(job_id: UUID, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Retry a dead-lettered, failed or canceled job; an open dead letter closes as reprocessed.

    Raises:
        UnknownJob: no such job in sight.
        WrongState: the job is in another status.
        KeyHeld: a live job holds the same idempotency key.
    """
    in_transaction(lambda: _retry(job_id, by, reason), savepoint=True)


def _retry(job_id: UUID, by: Actor, reason: str) -> None:
    job = in_sight(JobQueue, job_id)
    restarted = restart(job_id, Restart())
    close_as_reprocessed(restarted, by, reason)
    record_operation(
        by,
        "job.retry",
        firm_id=job.firm_id,
        target=("job", job_id),
        reason=reason,
        before={"status": job.status, "series": job.series, "attempts": job.attempts},
        after={"status": "pending", "series": restarted.series, "attempts": 0},
    )
    transaction.on_commit(lambda: set_off(restarted), robust=True)


def set_off(restarted: Restarted) -> None:
    """Admit and wake after the commit of a restart."""
    if restarted.lock_key is not None:
        admit(ReleasedCapacity.of_key(restarted.firm_id, restarted.lock_key))
    wake([restarted.category])
