"""The slots of locks over all firms, read past the reader's scope: name no other firm's holder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from jobs.models import ConcurrencyLock, JobQueue
from jobs.models.limits import JOB_HOLDER, held_at
from tenants.models import SYSTEM_SLUG


def slots_of_all_firms(lock_key: str, now: datetime) -> list[ConcurrencyLock]:
    """Return the slots of the key that are taken, in their order."""
    locks = ConcurrencyLock.objects.unscoped("the slots that all firms share")
    held = locks.filter(held_at(now), firm__slug=SYSTEM_SLUG, lock_key=lock_key)
    return list(held.order_by("slot"))


def held_by_jobs_of(firm_id: int, locks: Sequence[ConcurrencyLock]) -> list[ConcurrencyLock]:
    """Return those of the locks that jobs of the firm hold."""
    job_ids = {
        lock.holder_id.removeprefix(JOB_HOLDER): lock
        for lock in locks
        if lock.holder_id.startswith(JOB_HOLDER)
    }
    jobs = JobQueue.objects.unscoped("jobs of one firm that hold shared slots")
    found = jobs.filter(firm_id=firm_id, job_id__in=list(job_ids)).values_list("job_id", flat=True)
    mine = {str(job_id) for job_id in found}
    return [lock for job_id, lock in job_ids.items() if job_id in mine]
