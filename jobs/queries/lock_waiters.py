"""The jobs that wait for a lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, CharField, Q, Value, When
from django.db.models.lookups import Exact

from jobs.models import ConcurrencyLock, JobQueue
from jobs.queries.lists import job_rows
from jobs.states import CountedBy

WAITERS_SHOWN = 20
# More are not counted.
MOST_COUNTED = 1000
# As the index of the waiting groups has it.
KEY = Case(
    When(lock_key__isnull=True, then=Value("")), default="lock_key", output_field=CharField()
)


@dataclass(frozen=True)
class LockWaiters:
    """How many jobs wait with a lock's key, up to `MOST_COUNTED`, and the first of them."""

    count: int
    first: Sequence[JobQueue]


def waiting_with_key(key: str) -> Q:
    """Return the condition of waiting jobs with this lock key, which an index holds."""
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
