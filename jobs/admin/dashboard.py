"""The admin's first page: what the queue of the firms in sight is doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from jobs.admin.charts import HOURS, charts
from jobs.admin.firm_lines import firm_lines
from jobs.doctor.snapshots import is_pinned, oldest_snapshot
from jobs.engine.database_time import database_now
from jobs.queries.durations import in_words
from jobs.queries.stats import CategoryStats, QueueStats, queue_stats
from jobs.states import Status
from tenants.admin.base import sees_all_firms, sees_several_firms

STATUS_HEADINGS: dict[Status, str] = {
    status: "Dead" if status == Status.DLQ else status.value.capitalize() for status in Status
}


@dataclass(frozen=True)
class Tile:
    """One figure with its meaning; `href` leads to the rows behind it."""

    label: str
    value: str
    note: str = ""
    href: str = ""
    alarming: bool = False


@dataclass(frozen=True)
class Cell:
    """A count in the table, leading to its jobs; no text means none."""

    label: str
    text: str
    href: str


@dataclass(frozen=True)
class CategoryLine:
    """One category's row in the table."""

    name: str
    cells: list[Cell]
    oldest_wait: str
    per_minute: str
    failure_rate: str


def dashboard(_: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the queue's figures to the index page (Unfold's DASHBOARD_CALLBACK)."""
    stats, now = queue_stats(), database_now()
    return {
        **context,
        "title": "Queue",
        "tiles": _tiles(stats),
        "statuses": list(STATUS_HEADINGS.values()),
        "lines": [_line(row) for row in stats["categories"]],
        "window_minutes": stats["window_minutes"],
        "charts": charts(now),
        "chart_hours": HOURS,
        "firms": firm_lines(now) if sees_several_firms() else [],
        "pinned": _pinned() if sees_all_firms() else "",
    }


def _pinned() -> str:
    """Say for how long somebody has kept vacuum from cleaning up, where that is an alert."""
    oldest = oldest_snapshot()
    if oldest is None or not is_pinned(oldest):
        return ""
    return f"{oldest.who} has held a snapshot for {in_words(oldest.seconds)}."


def _tiles(stats: QueueStats) -> list[Tile]:
    totals, rows = stats["totals"], stats["categories"]
    runnable = sum(row["runnable"] for row in rows)
    locked = sum(row["waiting_lock"] for row in rows)
    scheduled = sum(row["scheduled"] for row in rows)
    waits = [row["oldest_wait_seconds"] for row in rows if row["oldest_wait_seconds"] is not None]
    workers = stats["workers"]
    return [
        Tile(
            "Runnable now",
            f"{runnable:,}",
            f"{scheduled:,} scheduled, {locked:,} locked",
            _jobs_url(status=Status.PENDING),
        ),
        Tile(
            "Running",
            f"{totals['claimed'] + totals['processing']:,}",
            f"{workers:,} live worker{'' if workers == 1 else 's'}",
            reverse("admin:jobs_worker_changelist") if sees_all_firms() else "",
            alarming=workers == 0 and runnable > 0,
        ),
        Tile("Oldest wait", in_words(max(waits)) if waits else "none", "due and not yet started"),
        Tile(
            "Throughput",
            f"{sum(row['completed_per_minute'] for row in rows):.1f}/min",
            f"completed, last {stats['window_minutes']} minutes",
            _jobs_url(status=Status.COMPLETED),
        ),
        Tile(
            "Open dead letters",
            f"{stats['dead_letters_open']:,}",
            "waiting for a decision",
            f"{reverse('admin:jobs_deadletterqueue_changelist')}?decision=open",
            alarming=stats["dead_letters_open"] > 0,
        ),
    ]


def _line(row: CategoryStats) -> CategoryLine:
    category, wait, rate = row["category"], row["oldest_wait_seconds"], row["failure_rate"]
    counts = {
        Status.PENDING: row["pending"],
        Status.CLAIMED: row["claimed"],
        Status.PROCESSING: row["processing"],
        Status.COMPLETED: row["completed"],
        Status.FAILED: row["failed"],
        Status.DLQ: row["dlq"],
        Status.CANCELED: row["canceled"],
    }
    return CategoryLine(
        name=category,
        cells=[
            Cell(
                label=STATUS_HEADINGS[status],
                text=f"{count:,}" if count else "",
                href=_jobs_url(category=category, status=status),
            )
            for status, count in counts.items()
        ],
        oldest_wait="-" if wait is None else in_words(wait),
        per_minute=f"{row['completed_per_minute']:.1f}",
        failure_rate="-" if rate is None else f"{rate:.1%}",
    )


def _jobs_url(**filters: str) -> str:
    return f"{reverse('admin:jobs_jobqueue_changelist')}?{urlencode(filters)}"
