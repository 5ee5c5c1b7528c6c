"""What can be asked of the lists: by which columns, and by what an operator has at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from jobs.engine.database_time import database_now
from jobs.models import ConcurrencyLock, DeadLetterQueue, JobQueue, Worker
from jobs.models.ids import id_at
from jobs.models.lock import JOB_HOLDER
from jobs.states import (
    LIVE,
    OPEN_RESOLUTIONS,
    Category,
    DeadReason,
    LockKind,
    Status,
    WorkerState,
)

# Ids are made by the clock of whoever enqueues; created_at is the database's.
CLOCK_MARGIN = timedelta(minutes=5)
# How a filter names what waits for a decision; the escalated ones do too.
OPEN = "open"
_HEX = re.compile(r"[0-9a-f]{1,32}\Z")


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
    before: datetime | None = None
    search: str | None = None

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
        if self.before is not None:
            rows = rows.filter(moved_at__lt=self.before)
        return rows if self.search is None else search_dead_letters(rows, self.search)


@dataclass(frozen=True, kw_only=True)
class LockFilter:
    """Which of the held locks to list; what is None does not matter."""

    kind: LockKind | None = None
    search: str | None = None

    def apply(self, locks: QuerySet[ConcurrencyLock]) -> QuerySet[ConcurrencyLock]:
        """Narrow `locks` to what is asked for; `search` is the beginning of a key."""
        of_jobs = Q(holder_id__startswith=JOB_HOLDER)
        if self.kind is not None:
            locks = locks.filter(of_jobs if self.kind is LockKind.JOB else ~of_jobs)
        if self.search is not None:
            locks = locks.filter(lock_key__startswith=self.search)
        return locks


@dataclass(frozen=True, kw_only=True)
class WorkerFilter:
    """Which workers to list; what is None does not matter."""

    state: WorkerState | None = None
    category: Category | None = None
    host: str | None = None

    def apply(self, workers: QuerySet[Worker]) -> QuerySet[Worker]:
        """Narrow `workers` to what is asked for; `category` is one that they serve."""
        if self.state is WorkerState.DEAD:
            workers = workers.filter(dead_at__isnull=False)
        elif self.state is not None:
            in_force = Q(lease_expires_at__gt=database_now())
            lives = in_force if self.state is WorkerState.LIVE else ~in_force
            workers = workers.filter(lives, dead_at__isnull=True)
        if self.category is not None:
            # As text: SQLite cannot look into a JSON list.
            workers = workers.annotate(served=Cast("categories", TextField())).filter(
                Q(served="[]") | Q(served__contains=f'"{self.category.value}"')
            )
        return workers if self.host is None else workers.filter(host=self.host)


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


def search_dead_letters(rows: QuerySet[DeadLetterQueue], term: str) -> QuerySet[DeadLetterQueue]:
    """Narrow `rows` to what an operator has at hand.

    That is a job's or dead letter's id or its beginning, a fingerprint, or an error class.
    """
    wanted = Q(fingerprint=term) | Q(error_class=term)
    span = id_range(term)
    if span is not None:
        first, last = span
        wanted |= Q(id__gte=first, id__lte=last)
        wanted |= Q(original_job_id__gte=first, original_job_id__lte=last)
    return rows.filter(wanted)


def id_range(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and last id that begin as `text` does; None if no id begins so."""
    digits = text.strip().lower().replace("-", "")
    if not _HEX.match(digits):
        return None
    return UUID(hex=digits.ljust(32, "0")), UUID(hex=digits.ljust(32, "f"))
