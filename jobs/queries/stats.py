"""Queue statistics: jobs by status, waits, throughput and failure rates.

Live jobs and dead letters are counted exactly, through indexes that hold nothing else. Finished
jobs are never counted: their numbers come from the counters that settling keeps by the minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q, Sum

from jobs.models import (
    CircuitBreaker,
    DeadLetterQueue,
    JobHour,
    JobMinute,
    JobMinuteDelta,
    PlatformHour,
    PlatformMinute,
    Schedule,
    Worker,
)
from jobs.models.history import OPERATED
from jobs.queries.held_back import HELD_BACK, INTENDED
from jobs.queries.live import Group, LiveGroup, LiveJobs, live_jobs
from jobs.queries.why_waiting import WaitCode
from jobs.states import OPEN_RESOLUTIONS, BreakerState, Category, Status
from tenants.scope import require_scope

WINDOW_MINUTES = 60
# Workers tick every second, and still run a slot that is a minute late; then the schedule is late.
LATE_SECONDS = 60.0

SUMS_OF_ALL = {JobMinute: PlatformMinute, JobHour: PlatformHour}


@dataclass
class JobCounts:
    """The jobs of one group, a category or firm; the window is the last `WINDOW_MINUTES`."""

    group: Any
    counted_at: datetime
    statuses: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Status, 0))
    runnable: int = 0
    scheduled: int = 0
    held_back: dict[WaitCode, int] = field(default_factory=lambda: dict.fromkeys(HELD_BACK, 0))
    due_since: datetime | None = None
    window_completed: int = 0
    window_failed: int = 0

    @property
    def in_flight(self) -> int:
        """The claimed and the processing jobs."""
        return self.statuses[Status.CLAIMED] + self.statuses[Status.PROCESSING]

    @property
    def all_held_back(self) -> int:
        """The due jobs that something holds back."""
        return sum(self.held_back.values())

    @property
    def oldest_wait_seconds(self) -> float | None:
        """How long the oldest due job has waited, except those held back on purpose."""
        if self.due_since is None:
            return None
        return round((self.counted_at - self.due_since).total_seconds(), 3)

    @property
    def completed_per_minute(self) -> float:
        """The throughput of the window."""
        return round(self.window_completed / WINDOW_MINUTES, 3)

    @property
    def failure_rate(self) -> float | None:
        """The failed and dead-lettered share of jobs settled in the window; None if none were."""
        settled = self.window_completed + self.window_failed
        return round(self.window_failed / settled, 4) if settled else None

    def add(self, other: JobCounts) -> None:
        """Add the jobs of another group."""
        for status, jobs in other.statuses.items():
            self.statuses[status] += jobs
        self.runnable += other.runnable
        self.scheduled += other.scheduled
        for code, jobs in other.held_back.items():
            self.held_back[code] += jobs
        self.add_due(other.due_since)
        self.window_completed += other.window_completed
        self.window_failed += other.window_failed

    def add_live(self, group: LiveGroup) -> None:
        """Add a group of live jobs."""
        self.statuses[group.status] += group.jobs
        if group.status != Status.PENDING:
            return
        self.scheduled += group.jobs - group.due
        if group.held_back is None:
            self.runnable += group.due
        else:
            self.held_back[group.held_back] += group.due
        if group.held_back not in INTENDED:
            self.add_due(group.due_since)

    def add_due(self, since: datetime | None) -> None:
        """Keep the time at which the oldest due job became due."""
        if since is not None and (self.due_since is None or since < self.due_since):
            self.due_since = since


@dataclass(frozen=True)
class QueueStats:
    """The whole queue's figures, for the firms in scope."""

    generated_at: datetime
    categories: list[JobCounts]
    totals: JobCounts
    workers: int
    window_minutes: int = WINDOW_MINUTES


def queue_stats(live: LiveJobs | None = None) -> QueueStats:
    """Return the figures of the firms in scope, with every category."""
    live = live or live_jobs()
    now = live.counted_at
    counts = count_jobs("category", live)
    categories = [counts.get(word) or JobCounts(word, now) for word in map(str, Category)]
    totals = JobCounts(None, now)
    for category in categories:
        totals.add(category)
    return QueueStats(now, categories, totals, live_workers(now))


def count_jobs(by: Group, live: LiveJobs) -> dict[Any, JobCounts]:
    """Return the jobs in scope by category or firm, for each that has any.

    A firm's completed, failed and canceled jobs are those of the window; a category's are those of
    all counters that are kept.
    """
    counts: dict[Any, JobCounts] = {}
    now = live.counted_at

    def of(group: Any) -> JobCounts:
        if group not in counts:
            counts[group] = JobCounts(group, now)
        return counts[group]

    for group in live.groups:
        key = group.category if by == "category" else group.firm_id
        if key is not None:
            of(key).add_live(group)
    for key, jobs in _open_dead_letters(by):
        of(key).statuses[Status.DLQ] = jobs
    for row in _settled(by, now - timedelta(minutes=WINDOW_MINUTES)):
        settled, sums = of(row[by]), Counter[str](row)
        settled.statuses[Status.COMPLETED] += sums["all_completed"]
        settled.statuses[Status.FAILED] += (
            sums["all_failed"] + sums["all_discarded"] - sums["all_failed_restarted"]
        )
        settled.statuses[Status.CANCELED] += sums["all_canceled"] - sums["all_canceled_restarted"]
        settled.window_completed += sums["window_completed"]
        settled.window_failed += sums["window_failed"] + sums["window_dlq"]
    for counted in counts.values():
        # A restarted job is subtracted; its earlier count may be pruned already, or outside the
        # window.
        known = counted.statuses.items()
        counted.statuses = {word: max(number, 0) for word, number in known}
    return counts


def live_workers(now: datetime) -> int:
    """Return how many workers hold their lease."""
    return Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=now).count()


def breakers_not_closed() -> list[tuple[str, str, int]]:
    """Return (job type, state, number of firms) of the breakers that are open or half open."""
    rows = CircuitBreaker.objects.filter(state__in=[BreakerState.OPEN, BreakerState.HALF_OPEN])
    counted = rows.values("job_type", "state").annotate(firms=Count("firm", distinct=True))
    return [(row["job_type"], row["state"], row["firms"]) for row in counted.order_by("job_type")]


def schedules_late(now: datetime) -> int:
    """Return how many schedules were due `LATE_SECONDS` ago or earlier and did not run."""
    late = now - timedelta(seconds=LATE_SECONDS)
    due = Schedule.objects.filter(enabled=True, next_run_at__lt=late)
    return due.filter(firm__active=True).count()


def _open_dead_letters(by: Group) -> Iterable[tuple[Any, int]]:
    """Count the jobs that wait for a decision: each has exactly one open dead letter."""
    rows = DeadLetterQueue.objects.filter(resolution__in=OPEN_RESOLUTIONS)
    found: Iterable[tuple[Any, int]] = rows.values_list(by).annotate(Count("pk")).order_by()
    return found


def _settled(by: Group, window_start: datetime) -> Iterable[dict[str, Any]]:
    """Sum the counters: by firm those of the window; by category all, and the window's separately.

    All are summed from the table by hour, because the one by minute may have millions of rows.
    """
    in_window = Q(minute__gte=window_start)
    every = {f"all_{name}": Sum(name) for name in ("completed", "failed", "canceled", *OPERATED)}
    window = {f"window_{name}": Sum(name) for name in ("completed", "failed", "dlq")}
    if by == "firm_id":
        return sum_counters(by, every | window, in_window)
    return [*sum_counters(by, every, Q(), JobHour), *sum_counters(by, window, in_window)]


def sum_counters(
    by: str, sums: Mapping[str, Sum], only: Q, folded: type[JobMinute] | type[JobHour] = JobMinute
) -> Iterable[dict[str, Any]]:
    """Return these sums of the counters in scope, up to two for each value of the column `by`.

    A caller who sees every firm gets the platform sums, unless `by` is the firm. One statement
    reads both tables, because deltas might be folded between two statements.
    """
    everything = require_scope("counters").firm_ids is None and by != "firm_id"
    source = SUMS_OF_ALL[folded] if everything else folded
    rows, deltas = (
        model._default_manager.filter(only).values(by).annotate(**sums).order_by()
        for model in (source, JobMinuteDelta)
    )
    found: Iterable[dict[str, Any]] = rows.union(deltas, all=True)
    return found
