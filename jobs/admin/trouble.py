"""The dashboard's tables: what fails, which firm enqueues too much, and how long jobs take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.safestring import SafeString

from jobs.admin.base import age, error_line, job_url, list_url
from jobs.admin.charts import Range, bars
from jobs.queries.durations import in_words
from jobs.queries.last_errors import error_in_words
from jobs.queries.latency import Percentiles, latency
from jobs.queries.stats import JobCounts
from jobs.queries.trouble import FailingNow, enqueue_rates
from jobs.states import Category, Measure, Status
from tenants.models import Firm

FIRMS_SHOWN = 5
TRENDS = {
    1: ("rising", "trending_up"),
    0: ("steady", "trending_flat"),
    -1: ("falling", "trending_down"),
}


@dataclass(frozen=True)
class FailingRow:
    """A type that fails now; `bars` are the number and the height in percent of each part."""

    job_type: str
    href: str
    recent: str
    since: SafeString | str
    error: SafeString | str
    error_href: str
    bars: Sequence[tuple[int, int]]
    trend: str
    icon: str


@dataclass(frozen=True)
class FloodRow:
    """A firm with much in the queue, or that enqueues much."""

    name: str
    href: str
    waiting: str
    per_minute: str


@dataclass(frozen=True)
class LatencyRow:
    """A category's percentiles in words: p50, p95, p99 of the wait, then of the run time."""

    name: str
    href: str
    attempts: str
    cells: Sequence[tuple[str, str]]


def failing_row(one: FailingNow) -> FailingRow:
    """Return the table's row for a type that fails."""
    trend, icon = TRENDS[one.rises]
    return FailingRow(
        one.job_type,
        list_url("jobqueue", type=one.job_type),
        f"{one.recent:,}",
        age(one.since),
        error_line(error_in_words(one.error_class, one.error)),
        job_url(one.job_id),
        bars(one.trend),
        trend,
        icon,
    )


def flood_rows(counts: Mapping[int, JobCounts], now: datetime) -> list[FloodRow]:
    """Return the firms with most waiting jobs, and those that enqueue most."""
    waiting = {firm: jobs.statuses[Status.PENDING] for firm, jobs in counts.items()}
    rates = enqueue_rates(now)
    shown = {
        firm
        for numbers in (waiting, rates)
        for firm in sorted(numbers, key=lambda firm: -numbers[firm])[:FIRMS_SHOWN]
        if numbers[firm]
    }
    firms = Firm.objects.in_bulk(shown)
    order = sorted(shown & firms.keys(), key=lambda firm: (-waiting.get(firm, 0), firm))
    return [
        FloodRow(
            firms[firm].name,
            list_url("jobqueue", firm=firms[firm].slug, status=Status.PENDING),
            f"{waiting.get(firm, 0):,}",
            f"{rates.get(firm, 0.0):,.1f}",
        )
        for firm in order
    ]


def latency_rows(shown: Range, now: datetime) -> list[LatencyRow]:
    """Return the percentiles of the categories that have any."""
    found = latency(shown.start(now), now)
    rows = []
    for name in map(str, Category):
        wait, run = found.get((name, Measure.WAIT)), found.get((name, Measure.RUN))
        if wait is not None and run is not None:
            cells = [*_cells("Wait", wait), *_cells("Run", run)]
            href = list_url("jobqueue", category=name)
            rows.append(LatencyRow(name, href, f"{run.attempts:,}", cells))
    return rows


def _cells(measure: str, of: Percentiles) -> list[tuple[str, str]]:
    values = (("p50", of.p50), ("p95", of.p95), ("p99", of.p99))
    return [(f"{measure} {name}", in_words(seconds)) for name, seconds in values]
