"""The admin's first page: the state of the queue of the firms in scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.base import list_url
from jobs.admin.charts import RANGES, charts, range_named
from jobs.admin.limits import where
from jobs.admin.pause import subject_of
from jobs.admin.trouble import failing_row, flood_rows, latency_rows
from jobs.models import CircuitBreaker, Pause
from jobs.queries.doctor.snapshots import is_pinned, oldest_snapshot
from jobs.queries.durations import in_words, probe_in_words, since_in_words
from jobs.queries.held_back import ANYTHING, LimitsInForce
from jobs.queries.live import recent_live_jobs
from jobs.queries.stats import JobCounts, QueueStats, count_jobs, queue_stats
from jobs.queries.trouble import failing_now
from jobs.states import Status
from tenants.admin.base import sees_several_firms
from tenants.models import Firm
from tenants.scope import sees_all_firms

FIRMS_SHOWN = 20
BLOCKS_SHOWN = 10
STATUS_HEADINGS: dict[Status, str] = {
    status: "Dead" if status == Status.DLQ else status.value.capitalize() for status in Status
}


@dataclass(frozen=True)
class Figure:
    """A tile, or a count in a table, which is empty for zero; `href` links to the rows behind it."""

    label: str
    value: str
    note: str = ""
    href: str = ""
    alarming: bool = False


@dataclass(frozen=True)
class Line:
    """A category's or a firm's row in its table."""

    name: str
    href: str
    cells: Sequence[Figure]
    oldest_wait: str
    per_minute: str
    failure_rate: str


@dataclass(frozen=True)
class Block:
    """A pause in force, or a circuit breaker that is not closed."""

    kind: str
    href: str
    what: str
    firm: str
    why: str
    until: str


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the queue's figures to the index page (Unfold's DASHBOARD_CALLBACK).

    Raises:
        BadRequest: the address names no range of the charts.
    """
    shown = range_named(request.GET.get("range", ""))
    by_firm = sees_several_firms()
    live = recent_live_jobs("firm_id") if by_firm else recent_live_jobs()
    stats, now = queue_stats(live), live.limits.now
    firms = count_jobs("firm_id", live) if by_firm else {}
    blocks = _blocks(live.limits)
    failing = failing_now(now)
    return {
        **context,
        "title": "Queue",
        "tiles": _tiles(stats),
        "counted": since_in_words(live.counted_at, now) if now > live.counted_at else "",
        "failing": [failing_row(one) for one in failing.types],
        "more_failing": failing.more,
        "failing_capped": failing.capped,
        "flooding": flood_rows(firms, now) if by_firm else [],
        "lines": [_category_line(category) for category in stats.categories],
        "window_minutes": stats.window_minutes,
        "ranges": RANGES.values(),
        "shown": shown,
        "charts": charts(now, shown),
        "latency": latency_rows(shown, now),
        "firms": _firm_lines(firms),
        "more_firms": max(0, len(firms) - FIRMS_SHOWN),
        "blocks": blocks[:BLOCKS_SHOWN],
        "more_blocks": len(blocks[BLOCKS_SHOWN:]),
        "pinned": _pinned() if sees_all_firms() else "",
    }


def _pinned() -> str:
    """Say who holds a snapshot so old that it is an alert; "" if nobody does."""
    oldest = oldest_snapshot()
    if oldest is None or not is_pinned(oldest):
        return ""
    return f"{oldest.who} has held a snapshot for {in_words(oldest.seconds)}."


def _tiles(stats: QueueStats) -> list[Figure]:
    totals, workers = stats.totals, stats.workers
    wait, dead_letters = totals.oldest_wait_seconds, totals.statuses[Status.DLQ]
    return [
        Figure(
            "Runnable now",
            f"{totals.runnable:,}",
            f"{totals.scheduled:,} scheduled for later",
            list_url("jobqueue", status=Status.PENDING),
        ),
        Figure(
            "Held back",
            f"{totals.all_held_back:,}",
            ", ".join(f"{jobs:,} {code.words}" for code, jobs in totals.held_back.items() if jobs)
            or "due, but held back by a limit or a lock",
            list_url("jobqueue", held_back=ANYTHING),
        ),
        Figure(
            "Running",
            f"{totals.in_flight:,}",
            f"{workers:,} live worker{'' if workers == 1 else 's'}",
            reverse("admin:jobs_worker_changelist") if sees_all_firms() else "",
            alarming=workers == 0 and totals.runnable > 0,
        ),
        Figure(
            "Oldest wait",
            "none" if wait is None else in_words(wait),
            "due jobs that nothing holds back on purpose",
        ),
        Figure(
            "Throughput",
            f"{totals.completed_per_minute:.1f}/min",
            f"completed, last {stats.window_minutes} minutes",
            list_url("jobqueue", status=Status.COMPLETED),
        ),
        Figure(
            "Open dead letters",
            f"{dead_letters:,}",
            "waiting for a decision",
            list_url("deadletterqueue", resolution="open"),
            alarming=dead_letters > 0,
        ),
    ]


def _blocks(limits: LimitsInForce) -> list[Block]:
    """Return the pauses and the breakers, those of every firm first."""
    pauses = [_pause_block(pause, limits.now) for pause in limits.pauses]
    return pauses + [_breaker_block(breaker, limits.now) for breaker in limits.breakers]


def _pause_block(pause: Pause, now: datetime) -> Block:
    # The row of a pause everywhere is the system firm's, which only platform staff may open.
    hidden = pause.everywhere and not sees_all_firms()
    return Block(
        kind="Pause",
        href="" if hidden else reverse("admin:jobs_pause_change", args=[pause.pk]),
        what=subject_of(pause),
        firm=where(pause),
        why=pause.reason,
        until=f"ends {since_in_words(pause.until, now)}"
        if pause.until
        else "until resumed by hand",
    )


def _breaker_block(breaker: CircuitBreaker, now: datetime) -> Block:
    due = "not planned" if breaker.probe_at is None else probe_in_words(breaker.probe_at, now)
    return Block(
        kind="Breaker",
        href=reverse("admin:jobs_circuitbreaker_change", args=[breaker.pk]),
        what=str(breaker),
        firm=breaker.firm.name,
        why=f"same failure again and again ({breaker.fingerprint})"
        if breaker.fingerprint
        else "opened by hand",
        until=f"{breaker.get_state_display()}, next probe {due}",
    )


def _category_line(counts: JobCounts) -> Line:
    name = counts.group
    cells = [
        _cell(heading, counts.statuses[status], list_url("jobqueue", category=name, status=status))
        for status, heading in STATUS_HEADINGS.items()
    ]
    held_url = list_url("jobqueue", category=name, held_back=ANYTHING)
    cells.insert(1, _cell("Held back", counts.all_held_back, held_url))
    return _line(name, "", cells, counts)


def _firm_lines(by_firm: Mapping[int, JobCounts]) -> list[Line]:
    """Return the firms in scope that have something in the queue, the most urgent first."""
    counts = sorted(by_firm.values(), key=_urgency, reverse=True)[:FIRMS_SHOWN]
    firms = Firm.objects.in_bulk([firm.group for firm in counts])
    return [_firm_line(firms[firm.group], firm) for firm in counts if firm.group in firms]


def _urgency(firm: JobCounts) -> tuple[int, int, int]:
    """Open dead letters first, then the longest queue, then the busiest."""
    return firm.statuses[Status.DLQ], firm.statuses[Status.PENDING], firm.window_completed


def _firm_line(firm: Firm, counts: JobCounts) -> Line:
    cells = [
        _cell(
            "Open dead letters",
            counts.statuses[Status.DLQ],
            list_url("deadletterqueue", firm=firm.slug, resolution="open"),
        ),
        _cell("Pending", counts.statuses[Status.PENDING]),
        _cell(
            "Held back",
            counts.all_held_back,
            list_url("jobqueue", firm=firm.slug, held_back=ANYTHING),
        ),
        _cell("Running", counts.in_flight),
    ]
    return _line(firm.name, list_url("jobqueue", firm=firm.slug), cells, counts)


def _cell(label: str, count: int, href: str = "") -> Figure:
    return Figure(label, f"{count:,}" if count else "", href=href)


def _line(name: str, href: str, cells: Sequence[Figure], counts: JobCounts) -> Line:
    wait, rate = counts.oldest_wait_seconds, counts.failure_rate
    return Line(
        name,
        href,
        cells,
        oldest_wait="-" if wait is None else in_words(wait),
        per_minute=f"{counts.completed_per_minute:.1f}",
        failure_rate="-" if rate is None else f"{rate:.1%}",
    )
