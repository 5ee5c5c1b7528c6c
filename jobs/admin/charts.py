"""The dashboard's charts of the last hours, read from the counters by the minute."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Q, Sum

from jobs.models.history import COUNTED, COUNTERS
from jobs.queries.durations import in_words
from jobs.queries.stats import sum_counters

HOURS = 6
BAR_MINUTES = 10
BAR_COUNT = HOURS * 60 // BAR_MINUTES
# Chart.js thins out the times below the bars.
MAX_TIMES_SHOWN = 4
COLOURS = {
    "success": "var(--color-green-500)",
    "danger": "var(--color-red-500)",
    "warning": "var(--color-orange-400)",
    "primary": "var(--color-primary-500)",
}

Counts = Counter[str]


@dataclass(frozen=True)
class Series:
    """One measure of the bars; `tone` is one of COLOURS."""

    name: str
    tone: str
    measure: Callable[[Counts], float]


@dataclass(frozen=True)
class Chart:
    """Stacked bars: `data` for Unfold's chart component, `peak` the highest in words, "" for none."""

    title: str
    series: Sequence[Series]
    in_words: Callable[[float], str]
    data: str = ""
    peak: str = ""


def _jobs(count: float) -> str:
    return f"{count:,.0f} in {BAR_MINUTES} min"


def _mean_seconds(counter: str) -> Callable[[Counts], float]:
    def measure(counts: Counts) -> float:
        settled = sum(counts[name] for name in COUNTED)
        return round(counts[counter] / settled / 1000, 3) if settled else 0

    return measure


CHARTS = (
    Chart(
        "Settled jobs",
        (
            Series("completed", "success", lambda counts: counts["completed"]),
            Series("failed", "danger", lambda counts: counts["failed"] + counts["dlq"]),
        ),
        _jobs,
    ),
    Chart("New dead letters", (Series("dead", "danger", lambda counts: counts["dlq"]),), _jobs),
    Chart(
        "Mean time of a job",
        (
            Series("waiting (s)", "warning", _mean_seconds("wait_ms")),
            Series("running (s)", "primary", _mean_seconds("run_ms")),
        ),
        in_words,
    ),
)


def charts(now: datetime) -> list[Chart]:
    """Return the charts of the firms in scope."""
    last = now.replace(minute=now.minute - now.minute % BAR_MINUTES, second=0, microsecond=0)
    times = [last - timedelta(minutes=BAR_MINUTES * ago) for ago in reversed(range(BAR_COUNT))]
    bars = _bars(times[0])
    return [_filled(chart, [f"{time:%H:%M}" for time in times], bars) for chart in CHARTS]


def _bars(since: datetime) -> list[Counts]:
    """Add up the counters of the minutes of each bar."""
    bars = [Counter[str]() for _ in range(BAR_COUNT)]
    sums = {f"sum_{name}": Sum(name) for name in COUNTERS}
    for row in sum_counters("minute", sums, Q(minute__gte=since)):
        number = int((row["minute"] - since).total_seconds() // (BAR_MINUTES * 60))
        bars[min(number, BAR_COUNT - 1)].update({name: row[f"sum_{name}"] for name in COUNTERS})
    return bars


def _filled(chart: Chart, labels: list[str], bars: list[Counts]) -> Chart:
    datasets = [
        {
            "label": one.name,
            "data": [one.measure(bar) for bar in bars],
            "backgroundColor": COLOURS[one.tone],
            "stack": chart.title,
            "maxTicksXLimit": MAX_TIMES_SHOWN,
        }
        for one in chart.series
    ]
    peak = max(sum(one.measure(bar) for one in chart.series) for bar in bars)
    return replace(
        chart,
        data=json.dumps({"labels": labels, "datasets": datasets}),
        peak=chart.in_words(peak) if peak else "",
    )
