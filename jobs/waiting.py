"""Why a job is not running: each thing that stands in its way, in the order an operator asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from jobs.ages import in_words
from jobs.clock import database_now
from jobs.models import ConcurrencyLock, JobQueue, Worker
from jobs.states import Status


class WaitCode(StrEnum):
    """What can stand in a job's way."""

    SCHEDULED = "scheduled"
    FIRM_INACTIVE = "firm_inactive"
    LOCKED = "locked"
    NO_WORKER = "no_worker"
    NO_WORKER_FOR_CATEGORY = "no_worker_for_category"
    UNKNOWN_TYPE = "unknown_type"


@dataclass(frozen=True)
class WaitReason:
    """One thing that stands in a job's way; `until` is when it ends, where that is known."""

    code: WaitCode
    detail: str
    until: datetime | None = None


def why_waiting(job: JobQueue) -> list[WaitReason]:
    """Return what keeps a pending job from running; empty for any other status.

    Empty for a pending job too when nothing is in its way: a worker will claim it in its turn.
    """
    if job.status != Status.PENDING:
        return []
    now = database_now()
    return [*_own_reasons(job, now), *_lock_reasons(job, now), *_worker_reasons(job, now)]


def _own_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    if job.scheduled_at > now:
        wait = in_words((job.scheduled_at - now).total_seconds())
        yield WaitReason(WaitCode.SCHEDULED, f"scheduled in {wait}", job.scheduled_at)
    if not job.firm.active:
        yield WaitReason(WaitCode.FIRM_INACTIVE, f"firm {job.firm.slug} is not active")


def _lock_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    if not (job.waiting and job.lock_key):
        return
    locks = ConcurrencyLock.objects.filter(firm_id=job.firm_id, lock_key=job.lock_key)
    for lock in locks.order_by("slot")[: job.lock_limit]:
        held = in_words((now - lock.acquired_at).total_seconds())
        detail = f"lock {job.lock_key} is held by {lock.holder_id} for {held}"
        yield WaitReason(WaitCode.LOCKED, detail, lock.expires_at)


def _worker_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    workers = list(
        Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=now).values_list(
            "categories", "job_types"
        )
    )
    if not workers:
        yield WaitReason(WaitCode.NO_WORKER, "no worker is alive: start manage.py runworker")
        return
    serving = [
        types for categories, types in workers if not categories or job.category in categories
    ]
    if not serving:
        detail = f"no live worker serves the category {job.category}"
        yield WaitReason(WaitCode.NO_WORKER_FOR_CATEGORY, detail)
    elif not any(job.job_type in types for types in serving):
        detail = f"no live worker knows the type {job.job_type}"
        yield WaitReason(WaitCode.UNKNOWN_TYPE, detail)
