"""Lists of jobs and dead letters: what can be asked for, newest first, a page at a time.

Pages are keyset pages: a cursor names the last row seen, so that a page costs the same however
deep it lies, and rows that arrive meanwhile shift nothing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet

from jobs.clock import database_now
from jobs.models import (
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    JobQueue,
    Pause,
    RateLimit,
    Schedule,
    Worker,
)
from jobs.models.lock import held_at
from jobs.states import IN_FLIGHT, LIVE, Category, DeadReason, Resolution, Status

T = TypeVar(
    "T",
    JobQueue,
    DeadLetterQueue,
    ConcurrencyLock,
    Pause,
    RateLimit,
    CircuitBreaker,
    Schedule,
    Worker,
)

# Ids are made by the clock of whoever enqueues; created_at is the database's.
CLOCK_MARGIN = timedelta(minutes=5)
# How a filter names what waits for a decision; the escalated ones do too.
OPEN = "open"
OPEN_RESOLUTIONS = ("", Resolution.ESCALATED.value)
_HEX = re.compile(r"[0-9a-f]{1,32}\Z")


class CursorInvalid(ValueError):
    """The cursor is not one this list gave out; start again without it."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list and the cursor of the next page, None at the end."""

    rows: Sequence[T]
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Which jobs to list; what is None does not matter."""

    status: Status | None = None
    category: Category | None = None
    job_type: str | None = None
    correlation_id: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    error: str | None = None
    search: str | None = None

    def apply(self, jobs: QuerySet[JobQueue]) -> QuerySet[JobQueue]:
        """Narrow `jobs` to what is asked for."""
        if self.status is not None:
            jobs = with_status(jobs, self.status)
        if self.category is not None:
            jobs = jobs.filter(category=self.category)
        if self.job_type is not None:
            jobs = jobs.filter(job_type=self.job_type)
        if self.correlation_id is not None:
            jobs = jobs.filter(correlation_id=self.correlation_id)
        if self.since is not None:
            jobs = jobs.filter(
                job_id__gte=id_at(self.since - CLOCK_MARGIN), created_at__gte=self.since
            )
        if self.before is not None:
            jobs = jobs.filter(
                job_id__lt=id_at(self.before + CLOCK_MARGIN), created_at__lt=self.before
            )
        if self.error is not None:
            jobs = jobs.filter(last_error__icontains=self.error)
        return jobs if self.search is None else search_jobs(jobs, self.search)


@dataclass(frozen=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters to list; what is None does not matter."""

    resolution: str | None = None
    reason: DeadReason | None = None
    category: Category | None = None
    job_type: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None

    def apply(self, rows: QuerySet[DeadLetterQueue]) -> QuerySet[DeadLetterQueue]:
        """Narrow `rows` to what is asked for."""
        if self.resolution == OPEN:
            rows = rows.filter(resolution__in=OPEN_RESOLUTIONS)
        elif self.resolution is not None:
            rows = rows.filter(resolution=self.resolution)
        if self.reason is not None:
            rows = rows.filter(reason=self.reason)
        if self.category is not None:
            rows = rows.filter(original_job__category=self.category)
        if self.job_type is not None:
            rows = rows.filter(original_job__job_type=self.job_type)
        if self.fingerprint is not None:
            rows = rows.filter(fingerprint=self.fingerprint)
        if self.since is not None:
            rows = rows.filter(moved_at__gte=self.since)
        return rows


def with_status(jobs: QuerySet[JobQueue], status: Status) -> QuerySet[JobQueue]:
    """Narrow `jobs` to one status, through an index where the status is a rare one."""
    jobs = jobs.filter(status=status)
    if status in LIVE:
        return jobs.filter(Q(ready=True) | Q(waiting=True))
    if status == Status.DLQ:
        dead = DeadLetterQueue.objects.filter(resolution__in=OPEN_RESOLUTIONS)
        return jobs.filter(job_id__in=dead.values("original_job_id"))
    return jobs


def search_jobs(jobs: QuerySet[JobQueue], term: str) -> QuerySet[JobQueue]:
    """Narrow `jobs` to what an operator has at hand.

    That is a job id or its beginning, a correlation id, or the beginning of an idempotency key.
    """
    span = id_range(term)
    if span is not None:
        by_id = jobs.filter(job_id__range=span)
        if by_id.exists():
            return by_id
    return jobs.filter(Q(correlation_id=term) | Q(idempotency_key__startswith=term))


def list_jobs(wanted: JobFilter, *, limit: int, cursor: str | None = None) -> Page[JobQueue]:
    """Return a page of the jobs in scope, newest first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(wanted.apply(JobQueue.objects.select_related("firm")), limit, cursor)


def list_dead_letters(
    wanted: DeadLetterFilter, *, limit: int, cursor: str | None = None
) -> Page[DeadLetterQueue]:
    """Return a page of the dead letters in scope, newest first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(wanted.apply(dead_letters()), limit, cursor)


def list_locks(*, limit: int, cursor: str | None = None) -> Page[ConcurrencyLock]:
    """Return a page of the held locks in scope, the latest taken first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(held_locks(), limit, cursor)


def list_pauses(*, limit: int, cursor: str | None = None) -> Page[Pause]:
    """Return a page of the pauses in scope, the latest first.

    One that holds everywhere is the system firm's row: out of scope for members of other firms.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(Pause.objects.select_related("firm"), limit, cursor)


def list_rate_limits(*, limit: int, cursor: str | None = None) -> Page[RateLimit]:
    """Return a page of the rate limits in scope, the latest first; everywhere as with pauses.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(RateLimit.objects.select_related("firm"), limit, cursor)


def list_breakers(*, limit: int, cursor: str | None = None) -> Page[CircuitBreaker]:
    """Return a page of the circuit breakers in scope, the latest first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(CircuitBreaker.objects.select_related("firm"), limit, cursor)


def list_schedules(*, limit: int, cursor: str | None = None) -> Page[Schedule]:
    """Return a page of the schedules in scope, the latest made first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(Schedule.objects.select_related("firm"), limit, cursor)


def list_workers(*, limit: int, cursor: str | None = None) -> Page[Worker]:
    """Return a page of the workers, the latest started first; they serve every firm.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(Worker.objects.all(), limit, cursor)


def running_jobs(workers: Iterable[Worker]) -> dict[UUID, list[str]]:
    """Return, by worker, the ids of the jobs in scope that it runs.

    A worker's row is written when handlers start: it goes on naming those that have ended since.
    Of a job that was claimed alone, only its own row says that it started.
    """
    named = {job_id: worker.pk for worker in workers for job_id in worker.running}
    running: dict[UUID, list[str]] = {worker.pk: [] for worker in workers}
    in_flight = JobQueue.objects.filter(
        Q(pk__in=named) | Q(started_at__isnull=False),
        ready=True,
        status__in=IN_FLIGHT,
        worker_id__in=running,
    )
    for job_id, worker_id, started_at in in_flight.order_by("pk").values_list(
        "pk", "worker_id", "started_at"
    ):
        if started_at is not None or named[str(job_id)] == worker_id:
            running[worker_id].append(str(job_id))
    return running


def held_locks() -> QuerySet[ConcurrencyLock]:
    """Return the locks in scope that are held; a user's whose time is up is not."""
    return ConcurrencyLock.objects.filter(held_at(database_now())).select_related("firm")


def dead_letters() -> QuerySet[DeadLetterQueue]:
    """Return the dead letters in scope, with all that their shape needs."""
    return DeadLetterQueue.objects.select_related(
        "firm", "original_job", "reviewed_by", "assigned_to"
    )


def id_at(moment: datetime) -> UUID:
    """Return the lowest UUIDv7 of that millisecond."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return UUID(int=milliseconds << 80)


def id_range(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and last id that begin as `text` does; None if no id begins so."""
    digits = text.strip().lower().replace("-", "")
    if not _HEX.match(digits):
        return None
    return UUID(hex=digits.ljust(32, "0")), UUID(hex=digits.ljust(32, "f"))


def _page(rows: QuerySet[T], limit: int, cursor: str | None) -> Page[T]:
    """Return the rows behind the cursor. Every id here is a UUIDv7: its order is that of time."""
    if cursor is not None:
        rows = rows.filter(pk__lt=_decode(cursor))
    found = list(rows.order_by("-pk")[: limit + 1])
    shown = found[:limit]
    return Page(shown, _encode(shown[-1].pk) if len(found) > limit else None)


def _encode(last: UUID) -> str:
    return base64.urlsafe_b64encode(last.bytes).decode().rstrip("=")


def _decode(cursor: str) -> UUID:
    try:
        return UUID(bytes=base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise CursorInvalid("this is not a cursor of this list") from error
