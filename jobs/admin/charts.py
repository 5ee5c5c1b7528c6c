"""The dashboard's charts of the last hours, read from the counters by the minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Sum

from jobs.models import JobMinute
from jobs.queries.durations import in_words

HOURS = 6
BAR_MINUTES = 10
BAR_COUNT = HOURS * 60 // BAR_MINUTES
COUNTERS = ("completed", "failed", "dlq", "canceled", "retried", "wait_ms", "run_ms")
# The drawing's own units; the page stretches it to the width there is.
BAR_PITCH, HEIGHT = 10, 100

Counts = dict[str, int]
Measure = Callable[[Counts], float]


@dataclass(frozen=True)
class Part:
    """A coloured part of a bar."""

    tone: str
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    """What happened in some minutes; `text` shows on hover."""

    x: int
    parts: list[Part]
    text: str


@dataclass(frozen=True)
class Series:
    """One measure of the bars, with its colour."""

    name: str
    tone: str
    measure: Measure


@dataclass(frozen=True)
class Plan:
    """What a chart shows; `spelled` says a value in words."""

    title: str
    series: Sequence[Series]
    spelled: Callable[[float], str]


@dataclass(frozen=True)
class Chart:
    """Stacked bars over time; `peak` is what the highest stands for, nothing when there is none."""

    title: str
    series: Sequence[Series]
    bars: list[Bar]
    peak: str
    since: datetime
    until: datetime

    @property
    def width(self) -> int:
        """The drawing's width in its own units."""
        return len(self.bars) * BAR_PITCH

    @property
    def height(self) -> int:
        """The drawing's height in its own units."""
        return HEIGHT


def _jobs(count: float) -> str:
    return f"{count:,.0f} in {BAR_MINUTES} min"


def _mean_seconds(counter: str) -> Measure:
    def measure(counts: Counts) -> float:
        settled = sum(counts[word] for word in COUNTERS[:5])
        return counts[counter] / settled / 1000 if settled else 0.0

    return measure


_PLANS = (
    Plan(
        "Settled jobs",
        [
            Series("completed", "success", lambda counts: counts["completed"]),
            Series("failed", "danger", lambda counts: counts["failed"] + counts["dlq"]),
        ],
        _jobs,
    ),
    Plan("New dead letters", [Series("dead", "danger", lambda counts: counts["dlq"])], _jobs),
    Plan(
        "Mean time of a job",
        [
            Series("waiting", "warning", _mean_seconds("wait_ms")),
            Series("running", "primary", _mean_seconds("run_ms")),
        ],
        in_words,
    ),
)


def charts(now: datetime) -> list[Chart]:
    """Return the charts of the firms in scope."""
    since = _floor(now) - timedelta(minutes=(BAR_COUNT - 1) * BAR_MINUTES)
    buckets = _buckets(since)
    return [_chart(plan, buckets, since, now) for plan in _PLANS]


def _floor(moment: datetime) -> datetime:
    minute = moment.minute - moment.minute % BAR_MINUTES
    return moment.replace(minute=minute, second=0, microsecond=0)


def _buckets(since: datetime) -> list[Counts]:
    """Add the minutes up to bars."""
    buckets = [dict.fromkeys(COUNTERS, 0) for _ in range(BAR_COUNT)]
    rows = (
        JobMinute.objects.filter(minute__gte=since)
        .values("minute")
        .annotate(**{f"sum_{name}": Sum(name) for name in COUNTERS})
        .order_by()
    )
    for row in rows:
        place = int((row["minute"] - since).total_seconds() // (BAR_MINUTES * 60))
        bucket = buckets[min(place, BAR_COUNT - 1)]
        for name in COUNTERS:
            bucket[name] += row[f"sum_{name}"]
    return buckets


def _chart(plan: Plan, buckets: list[Counts], since: datetime, until: datetime) -> Chart:
    tallest = max(sum(one.measure(counts) for one in plan.series) for counts in buckets)
    bars = []
    for number, counts in enumerate(buckets):
        start = since + timedelta(minutes=number * BAR_MINUTES)
        values = [one.measure(counts) for one in plan.series]
        told = ", ".join(
            f"{plan.spelled(value)} {one.name}"
            for one, value in zip(plan.series, values, strict=True)
        )
        bars.append(
            Bar(
                x=number * BAR_PITCH,
                parts=_parts(plan.series, values, tallest),
                text=f"{start:%H:%M} UTC: {told}",
            )
        )
    peak = plan.spelled(tallest) if tallest else ""
    return Chart(plan.title, plan.series, bars, peak, since, until)


def _parts(series: Sequence[Series], values: list[float], tallest: float) -> list[Part]:
    """Stack the values from the ground up."""
    parts, ground = [], float(HEIGHT)
    for one, value in zip(series, values, strict=True):
        if value:
            height = value / tallest * HEIGHT
            ground -= height
            parts.append(Part(one.tone, round(ground, 2), round(height, 2)))
    return parts
