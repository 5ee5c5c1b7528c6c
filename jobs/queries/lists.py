"""The queue's lists: newest first, a page at a time.

Pages are keyset pages: a cursor names the last row seen, so that a page costs the same however
deep it lies, and rows that arrive meanwhile shift nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet

from jobs.engine.database_time import database_now
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
from jobs.queries.filters import DeadLetterFilter, JobFilter, LockFilter, WorkerFilter
from jobs.states import IN_FLIGHT

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

# A job's large columns: no list shows them, so none reads them.
CARRIED = ("payload", "result")
CARRIED_BY_JOB = tuple(f"original_job__{column}" for column in CARRIED)


class CursorInvalid(ValueError):
    """The cursor is not one this list gave out; start again without it."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list and the cursor of the next page, None at the end."""

    rows: Sequence[T]
    next_cursor: str | None


def list_jobs(wanted: JobFilter, *, limit: int, cursor: str | None = None) -> Page[JobQueue]:
    """Return a page of the jobs in scope, newest first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(wanted.apply(job_rows()), limit, cursor)


def list_dead_letters(
    wanted: DeadLetterFilter, *, limit: int, cursor: str | None = None
) -> Page[DeadLetterQueue]:
    """Return a page of the dead letters in scope, newest first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(wanted.apply(dead_letters()), limit, cursor)


def list_locks(
    wanted: LockFilter, *, limit: int, cursor: str | None = None
) -> Page[ConcurrencyLock]:
    """Return a page of the held locks in scope, the latest taken first.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(wanted.apply(held_locks()), limit, cursor)


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


def list_workers(wanted: WorkerFilter, *, limit: int, cursor: str | None = None) -> Page[Worker]:
    """Return a page of the workers, the latest started first; they serve every firm.

    Raises:
        CursorInvalid: `cursor` is not one of this list.
    """
    return _page(wanted.apply(Worker.objects.all()), limit, cursor)


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


def job_rows() -> QuerySet[JobQueue]:
    """Return the jobs in scope, with all that their shape needs; what they carry stays behind."""
    rows: QuerySet[JobQueue] = JobQueue.objects.select_related("firm")
    return rows.defer(*CARRIED)


def dead_letters() -> QuerySet[DeadLetterQueue]:
    """Return the dead letters in scope, with all that their shape needs."""
    rows: QuerySet[DeadLetterQueue] = DeadLetterQueue.objects.select_related(
        "firm", "original_job", "reviewed_by", "assigned_to"
    )
    return rows.defer(*CARRIED_BY_JOB)


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
