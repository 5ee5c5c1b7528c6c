"""The queue's lists: newest first, a page at a time.

Pages are keyset pages: a cursor names the last row of a page. A page costs the same at any depth,
and rows that arrive meanwhile shift nothing.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import Model, Q, QuerySet

from jobs.engine.clock import database_now
from jobs.models import (
    BulkRun,
    ConcurrencyLock,
    DeadLetterQueue,
    JobQueue,
    SavedView,
    Schedule,
    ScheduleRun,
    Worker,
    WorkerVersion,
)
from jobs.models.limits import held_at
from jobs.states import IN_FLIGHT, Listing
from tenants.models import SYSTEM_SLUG
from tenants.scope import require_scope

T = TypeVar("T", bound=Model)

# Prefetched: in a join PostgreSQL might expect few rows and compare each with every firm.
FIRM = "firm"
# How many rows of a window are read in one query, and after how many seconds a page reads no more.
ROWS_AT_ONCE = 10_000
READING_SECONDS = 1.0
# A job's large columns, which no list shows.
LARGE_COLUMNS = ("payload", "result")
LARGE_COLUMNS_OF_JOB = tuple(f"original_job__{column}" for column in LARGE_COLUMNS)
MOST_VIEWS = 60


class CursorInvalid(ValueError):
    """The cursor is not one that a list returned."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list and the cursor of the next page, None at the end."""

    rows: Sequence[T]
    next_cursor: str | None


@dataclass(frozen=True)
class Window(Generic[T]):
    """Among which rows a list looks for those that it shows, where no index finds them."""

    rows: QuerySet[T]

    def last_read(self, wanted: QuerySet[T], number: int, after: UUID | None = None) -> UUID | None:
        """Return the id of the last row that a page reads; None if it reads all.

        It reads on until it has `number` of the `wanted` rows, or its time is over.
        """
        end = time.monotonic() + READING_SECONDS
        while True:
            last = self._last_of_next(after)
            if last is None:
                return None
            part = _older_than(after, wanted).filter(pk__gte=last).order_by("-pk")
            number -= len(part.values_list("pk", flat=True)[:number])
            if number <= 0 or time.monotonic() >= end:
                return last
            after = last

    def _last_of_next(self, after: UUID | None) -> UUID | None:
        ids = _older_than(after, self.rows).order_by("-pk").values_list("pk", flat=True)
        last: UUID | None = next(iter(ids[ROWS_AT_ONCE - 1 : ROWS_AT_ONCE]), None)
        return last


def _older_than(last: UUID | None, rows: QuerySet[T]) -> QuerySet[T]:
    return rows if last is None else rows.filter(pk__lt=last)


def get_page(
    rows: QuerySet[T],
    *,
    limit: int,
    cursor: str | None = None,
    window: Window[T] | None = None,
) -> Page[T]:
    """Return a page of `rows`, newest first. Their ids are UUIDv7, whose order is that of time.

    With a `window`, a page reads rows of it for a limited time. It may then have fewer rows than
    `limit`, even none, and still a cursor: the next page continues after those that were read.

    Raises:
        CursorInvalid: `cursor` cannot be read.
    """
    last = None if cursor is None else _decode(cursor)
    rows = _older_than(last, rows)
    floor = None if window is None else window.last_read(rows, limit + 1, last)
    if floor is not None:
        rows = rows.filter(pk__gte=floor)
    found = list(rows.order_by("-pk")[: limit + 1])
    shown = found[:limit]
    if len(found) > limit:
        return Page(shown, _encode(shown[-1].pk))
    return Page(shown, None if floor is None else _encode(floor))


def job_rows() -> QuerySet[JobQueue]:
    """Return the jobs in scope with what a list shows, without their large columns."""
    rows: QuerySet[JobQueue] = JobQueue.objects.prefetch_related(FIRM)
    return rows.defer(*LARGE_COLUMNS)


def dead_letters() -> QuerySet[DeadLetterQueue]:
    """Return the dead letters in scope with what their serializer shows."""
    rows: QuerySet[DeadLetterQueue] = DeadLetterQueue.objects.select_related(
        "original_job", "reviewed_by", "assigned_to"
    ).prefetch_related(FIRM)
    return rows.defer(*LARGE_COLUMNS_OF_JOB)


def held_locks() -> QuerySet[ConcurrencyLock]:
    """Return the locks in scope that are held, without those whose time is up."""
    return ConcurrencyLock.objects.filter(held_at(database_now())).select_related("firm")


def bulk_runs() -> QuerySet[BulkRun]:
    """Return the bulk runs in scope with what their serializer shows."""
    rows: QuerySet[BulkRun] = BulkRun.objects.select_related("firm")
    return rows


def runs_of(schedule: Schedule) -> QuerySet[ScheduleRun]:
    """Return the schedule's runs with what their serializer shows."""
    rows: QuerySet[ScheduleRun] = ScheduleRun.objects.select_related("firm")
    return rows.filter(firm_id=schedule.firm_id, schedule_id=schedule.pk)


def running_jobs(workers: Iterable[Worker]) -> dict[UUID, list[str]]:
    """Return, by worker, the ids of the jobs in scope that it runs.

    A worker's row is written when handlers start, so it may name jobs that have ended since. It
    does not name a job that was claimed alone, because that job's own row says that it started.
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


def newest_version() -> str | None:
    """Return the version whose first worker started last; None if no worker ever ran."""
    newest = WorkerVersion.objects.order_by("-first_seen_at", "-version")
    return newest.values_list("version", flat=True).first()


def worker_context(workers: Sequence[Worker]) -> dict[str, Any]:
    """Return what the serializer of workers needs."""
    return {"running": running_jobs(workers), "newest_version": newest_version()}


def _encode(last: UUID) -> str:
    return base64.urlsafe_b64encode(last.bytes).decode().rstrip("=")


def _decode(cursor: str) -> UUID:
    try:
        return UUID(bytes=base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise CursorInvalid("this is not a cursor of this list") from error


def views_of(user: AbstractBaseUser, listing: Listing) -> list[SavedView]:
    """Return the person's views of a list, and those that members of their firms share, by name.

    A person who sees every firm gets the views that platform staff shares: the system firm's.
    """
    shared = Q(shared=True)
    if require_scope("saved views").firm_ids is None:
        shared &= Q(firm__slug=SYSTEM_SLUG)
    views = SavedView.objects.filter(Q(user_id=user.pk) | shared, listing=listing)
    return list(views.select_related("user", "firm").order_by("name", "pk")[:MOST_VIEWS])
