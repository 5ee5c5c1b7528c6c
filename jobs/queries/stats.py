"""Queue statistics: what waits, what runs, what came of the rest.

Live jobs and dead letters are counted exactly, through indexes that hold nothing else; finished
jobs are never counted, their number comes from the counters that settling keeps by the minute.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

from django.db.models import Count, Min, Q, Sum

from jobs.engine.database_time import database_now
from jobs.models import (
    CircuitBreaker,
    DeadLetterQueue,
    JobMinute,
    JobQueue,
    Schedule,
    Worker,
)
from jobs.queries.filters import OPEN_RESOLUTIONS
from jobs.queries.serializers import iso
from jobs.states import BreakerState, Category, Status

WINDOW_MINUTES = 60
# Workers tick every second; a run that comes a minute late still happens.
LATE_SECONDS = 60.0


class StatusCounts(TypedDict):
    """Jobs by status."""

    pending: int
    claimed: int
    processing: int
    completed: int
    failed: int
    dlq: int
    canceled: int


class CategoryStats(StatusCounts):
    """One category's figures; the rates are those of the window, None where nothing settled."""

    category: str
    runnable: int
    scheduled: int
    waiting_lock: int
    oldest_wait_seconds: float | None
    completed_per_minute: float
    failure_rate: float | None


class QueueStats(TypedDict):
    """The whole queue's figures, for the firms in scope."""

    generated_at: str | None
    window_minutes: int
    totals: StatusCounts
    categories: list[CategoryStats]
    workers: int
    dead_letters_open: int


@dataclass
class _Tally:
    """What was counted for one category."""

    statuses: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Status, 0))
    runnable: int = 0
    scheduled: int = 0
    waiting_lock: int = 0
    due_since: datetime | None = None
    window_completed: int = 0
    window_failed: int = 0

    def due(self, since: datetime | None) -> None:
        """Remember the oldest due job."""
        known = [moment for moment in (self.due_since, since) if moment is not None]
        self.due_since = min(known, default=None)


def queue_stats() -> QueueStats:
    """Return the figures of the firms in scope, every category among them."""
    now = database_now()
    tallies: dict[str, _Tally] = defaultdict(_Tally)
    _count_live(tallies, now)
    _count_dead_letters(tallies)
    _count_settled(tallies, now - timedelta(minutes=WINDOW_MINUTES))
    totals = {
        status: sum(tally.statuses[status] for tally in tallies.values()) for status in Status
    }
    return QueueStats(
        generated_at=iso(now),
        window_minutes=WINDOW_MINUTES,
        totals=_status_counts(totals),
        categories=[_category_stats(category, tallies[category], now) for category in Category],
        workers=live_workers(now),
        dead_letters_open=totals[Status.DLQ],
    )


def live_workers(now: datetime) -> int:
    """Return how many workers hold a running lease."""
    return Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=now).count()


def breakers_not_closed() -> list[tuple[str, str, int]]:
    """Return of each type, and each state but closed, for how many firms its breaker is in it."""
    rows = CircuitBreaker.objects.filter(state__in=[BreakerState.OPEN, BreakerState.HALF_OPEN])
    counted = rows.values("job_type", "state").annotate(firms=Count("pk"))
    return [(row["job_type"], row["state"], row["firms"]) for row in counted.order_by("job_type")]


def schedules_late(now: datetime) -> int:
    """Return how many schedules were due long ago and did not run: nobody ticks, or one fails."""
    late = now - timedelta(seconds=LATE_SECONDS)
    due = Schedule.objects.filter(enabled=True, next_run_at__lt=late)
    return due.filter(firm__active=True).count()


def _count_live(tallies: dict[str, _Tally], now: datetime) -> None:
    """Count pending, claimed and processing jobs; each is either ready or waiting."""
    pending = Q(status=Status.PENDING)
    due = pending & Q(scheduled_at__lte=now)
    for flag in ("ready", "waiting"):
        rows = (
            JobQueue.objects.filter(**{flag: True})
            .values("category", "status")
            .annotate(
                jobs=Count("pk"),
                due=Count("pk", filter=due),
                due_locked=Count("pk", filter=due & Q(lock_key__isnull=False)),
                due_since=Min("scheduled_at", filter=due),
            )
            .order_by()
        )
        for row in rows:
            tally = tallies[row["category"]]
            tally.statuses[row["status"]] += row["jobs"]
            if row["status"] != Status.PENDING:
                continue
            tally.scheduled += row["jobs"] - row["due"]
            tally.due(row["due_since"])
            if flag == "ready":
                tally.runnable += row["due"]
            else:
                tally.waiting_lock += row["due_locked"]


def _count_dead_letters(tallies: dict[str, _Tally]) -> None:
    """Count jobs that wait for a decision: each has exactly one open dead letter."""
    rows = (
        DeadLetterQueue.objects.filter(resolution__in=OPEN_RESOLUTIONS)
        .values("original_job__category")
        .annotate(jobs=Count("pk"))
        .order_by()
    )
    for row in rows:
        tallies[row["original_job__category"]].statuses[Status.DLQ] += row["jobs"]


def _count_settled(tallies: dict[str, _Tally], window_start: datetime) -> None:
    """Add up the counters: all that are kept, and those of the window."""
    window = Q(minute__gte=window_start)
    rows = (
        JobMinute.objects.values("category")
        .annotate(
            all_completed=Sum("completed"),
            all_failed=Sum("failed"),
            all_canceled=Sum("canceled"),
            window_completed=Sum("completed", filter=window, default=0),
            window_failed=Sum("failed", filter=window, default=0),
            window_dlq=Sum("dlq", filter=window, default=0),
        )
        .order_by()
    )
    for row in rows:
        tally = tallies[row["category"]]
        tally.statuses[Status.COMPLETED] = row["all_completed"]
        tally.statuses[Status.FAILED] = row["all_failed"]
        tally.statuses[Status.CANCELED] = row["all_canceled"]
        tally.window_completed = row["window_completed"]
        tally.window_failed = row["window_failed"] + row["window_dlq"]


def _category_stats(category: Category, tally: _Tally, now: datetime) -> CategoryStats:
    wait = None if tally.due_since is None else (now - tally.due_since).total_seconds()
    settled = tally.window_completed + tally.window_failed
    return CategoryStats(
        **_status_counts(tally.statuses),
        category=category.value,
        runnable=tally.runnable,
        scheduled=tally.scheduled,
        waiting_lock=tally.waiting_lock,
        oldest_wait_seconds=None if wait is None else round(wait, 3),
        completed_per_minute=round(tally.window_completed / WINDOW_MINUTES, 3),
        failure_rate=round(tally.window_failed / settled, 4) if settled else None,
    )


def _status_counts(counts: dict[str, int] | dict[Status, int]) -> StatusCounts:
    by_name = {str(status): count for status, count in counts.items()}
    return StatusCounts(
        pending=by_name["pending"],
        claimed=by_name["claimed"],
        processing=by_name["processing"],
        completed=by_name["completed"],
        failed=by_name["failed"],
        dlq=by_name["dlq"],
        canceled=by_name["canceled"],
    )
