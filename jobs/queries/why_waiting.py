"""Why a job is not running: the reasons, in the order an operator would check them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from jobs.engine.clock import database_now
from jobs.models import ConcurrencyLock, JobQueue, Worker
from jobs.models.lock import held_at
from jobs.queries.blocking_limits import (
    MAX_AHEAD,
    blocking_breaker,
    blocking_pauses,
    blocking_rate,
    count_against_cap,
    count_ahead,
)
from jobs.queries.durations import in_words
from jobs.states import Status


class WaitCode(StrEnum):
    """The codes of the reasons."""

    SCHEDULED = "scheduled"
    FIRM_INACTIVE = "firm_inactive"
    PAUSED = "paused"
    CAPPED = "capped"
    RATE_LIMITED = "rate_limited"
    BREAKER = "breaker"
    LOCKED = "locked"
    NO_WORKER = "no_worker"
    NO_WORKER_FOR_CATEGORY = "no_worker_for_category"
    UNKNOWN_TYPE = "unknown_type"


@dataclass(frozen=True)
class WaitReason:
    """One reason why a job waits; `until` is when it ends, if that is known."""

    code: WaitCode
    detail: str
    until: datetime | None = None


def why_waiting(job: JobQueue) -> list[WaitReason]:
    """Return what keeps a pending job from running; empty for any other status.

    Also empty for a pending job that a worker will claim when it is free.
    """
    if job.status != Status.PENDING:
        return []
    now = database_now()
    return [
        *_own_reasons(job, now),
        *_pause_reasons(job),
        *_cap_reasons(job),
        *_rate_reasons(job, now),
        *_breaker_reasons(job),
        *_lock_reasons(job, now),
        *_worker_reasons(job, now),
    ]


def _own_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    if job.scheduled_at > now:
        wait = in_words((job.scheduled_at - now).total_seconds())
        yield WaitReason(WaitCode.SCHEDULED, f"scheduled in {wait}", job.scheduled_at)
    if not job.firm.active:
        yield WaitReason(WaitCode.FIRM_INACTIVE, f"firm {job.firm.slug} is not active")


def _pause_reasons(job: JobQueue) -> Iterator[WaitReason]:
    for pause in blocking_pauses(job):
        what = [
            f"type {pause.job_type}" if pause.job_type else "",
            f"category {pause.category}" if pause.category else "",
        ]
        where = "for every firm" if pause.everywhere else f"for firm {job.firm.slug}"
        subject = " in ".join(filter(None, what)) or "everything"
        who = f" by {pause.paused_by}" if pause.paused_by else ""
        detail = f"{subject} is paused {where}{who}: {pause.reason}"
        yield WaitReason(WaitCode.PAUSED, detail, pause.until)


def _cap_reasons(job: JobQueue) -> Iterator[WaitReason]:
    cap = job.firm.running_cap
    if cap is None or job.admitted:
        return
    counted = count_against_cap(job.firm_id)
    if counted >= cap:
        detail = f"firm {job.firm.slug} may run {cap} at once, and runs {counted}"
        yield WaitReason(WaitCode.CAPPED, detail)


def _rate_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    rate = None if job.admitted else blocking_rate(job, now)
    if rate is None or rate.next_at is None:
        return
    wait = in_words((rate.next_at - now).total_seconds())
    detail = (
        f"at most {rate.amount} of {job.job_type} start in {in_words(rate.per_seconds)};"
        f" the next one in {wait}"
    )
    yield WaitReason(WaitCode.RATE_LIMITED, detail, rate.next_at)


def _breaker_reasons(job: JobQueue) -> Iterator[WaitReason]:
    breaker = blocking_breaker(job)
    if breaker is None:
        return
    failing = f" (failure {breaker.fingerprint})" if breaker.fingerprint else ""
    then = "one job is tried next" if breaker.probe_at else "one job is being tried"
    detail = f"{job.job_type} kept failing for firm {job.firm.slug}{failing}; {then}"
    yield WaitReason(WaitCode.BREAKER, detail, breaker.probe_at)


def _lock_reasons(job: JobQueue, now: datetime) -> Iterator[WaitReason]:
    if not (job.waiting and job.lock_key):
        return
    locks = list(
        ConcurrencyLock.objects.filter(
            held_at(now), firm_id=job.firm_id, lock_key=job.lock_key
        ).order_by("slot")[: job.lock_limit]
    )
    ahead = count_ahead(job)
    if len(locks) < job.lock_limit and not ahead:
        return
    number = f"{ahead} or more" if ahead == MAX_AHEAD else str(ahead)
    before = f"; {number} before it in line" if ahead else ""
    for lock in locks:
        held = in_words((now - lock.acquired_at).total_seconds())
        holder = lock.holder_id.replace("job:", "job ", 1)
        detail = f"lock {job.lock_key} is held by {holder} for {held}{before}"
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
