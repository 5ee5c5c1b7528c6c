"""Who holds the slots of a lock over all firms, and which jobs wait for a lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, CharField, Q, Value, When
from django.db.models.lookups import Exact

from jobs.models import ConcurrencyLock, JobQueue
from jobs.models.limits import JOB_HOLDER, held_at
from jobs.queries.lists import job_rows
from jobs.states import CountedBy
from tenants.models import SYSTEM_SLUG

WAITERS_SHOWN = 20
# Waiting jobs beyond this number are not counted.
MOST_COUNTED = 1000
# The expression in the index of the waiting groups.
KEY = Case(
    When(lock_key__isnull=True, then=Value("")), default="lock_key", output_field=CharField()
)


@dataclass(frozen=True)
class LockWaiters:
    """How many jobs wait with a lock's key, up to `MOST_COUNTED`, and the first of them."""

    count: int
    first: Sequence[JobQueue]


def waiting_with_key(key: str) -> Q:
    """Return the condition of waiting jobs with this lock key; it uses an index."""
    return Q(Exact(KEY, Value(key)), waiting=True)


def waiters_of(lock: ConcurrencyLock) -> LockWaiters:
    """Return the jobs that wait for the lock, in the order in which they will get it."""
    whose = Q(lock_counted_by=CountedBy.FIRM, firm_id=lock.firm_id)
    if lock.counted_by == CountedBy.ALL_FIRMS:
        whose |= Q(lock_counted_by=CountedBy.ALL_FIRMS)
    waiting = job_rows().filter(waiting_with_key(lock.lock_key), whose)
    return LockWaiters(
        waiting[:MOST_COUNTED].count(),
        list(waiting.order_by("priority", "scheduled_at", "job_id")[:WAITERS_SHOWN]),
    )


def slots_of_all_firms(lock_key: str, now: datetime) -> list[ConcurrencyLock]:
    """Return the slots of the key that are taken, in their order, whatever the reader's scope.

    The caller must not show a reader the holders of other firms.
    """
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
