"""The dashboard's charts over a range of time, read from the counters by the minute or hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import BadRequest
from django.db.models import Q, Sum

from jobs.admin.base import list_url
from jobs.models import JobHour, JobMinute, WorkerVersion
from jobs.models.history import COUNTED, COUNTERS
from jobs.queries.durations import in_words
from jobs.queries.stats import sum_counters

# In the SVG's units: the distance from bar to bar (the template draws bars 8 wide), and the height.
BAR_STEP, HEIGHT = 10, 100
LEAST_HEIGHT = 2.0
VERSIONS_SHOWN = 5

Counts = Counter[str]
Counters = type[JobMinute] | type[JobHour]


@dataclass(frozen=True)
class Range:
    """How far back the dashboard looks: `count` bars of `bar_minutes` each."""

    name: str
    words: str
    bar_minutes: int
    count: int
    counters: Counters
    time_format: str

    def start(self, now: datetime) -> datetime:
        """Return when the first bar begins."""
        minutes = now.hour * 60 + now.minute
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        last = midnight + timedelta(minutes=minutes - minutes % self.bar_minutes)
        return last - timedelta(minutes=self.bar_minutes * (self.count - 1))


RANGES = {
    one.name: one
    for one in (
        Range("1h", "hour", 2, 30, JobMinute, "%H:%M"),
        Range("24h", "24 hours", 60, 24, JobHour, "%H:%M"),
        Range("7d", "7 days", 360, 28, JobHour, "%d %b %H:%M"),
    )
}
DEFAULT_RANGE = "24h"


def bars(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return each number with its part of the highest, in percent."""
    most = max(numbers) or 1
    return [(number, round(number * 100 / most)) for number in numbers]


def range_named(name: str) -> Range:
    """Return the range of this name; empty means the default.

    Raises:
        BadRequest: there is no such range.
    """
    if (name or DEFAULT_RANGE) not in RANGES:
        raise BadRequest(f"range: it is one of {', '.join(RANGES)}")
    return RANGES[name or DEFAULT_RANGE]


@dataclass(frozen=True)
class Series:
    """One measure of the bars; `tone` is a colour of the style sheet."""

    name: str
    tone: str
    measure: Callable[[Counts], float]


@dataclass(frozen=True)
class Kind:
    """What a chart shows; `listing` is the list of a bar's rows, `period` that list's filter."""

    title: str
    series: Sequence[Series]
    in_words: Callable[[float], str]
    listing: str
    period: str


@dataclass(frozen=True)
class Part:
    """A rectangle of a bar, in the SVG's units."""

    tone: str
    y: float
    height: float


@dataclass(frozen=True)
class Bar:
    """A bar with its values by series, and a link to the rows it counts; without parts, empty."""

    x: int
    label: str
    href: str
    values: dict[str, float]
    parts: Sequence[Part]


@dataclass(frozen=True)
class Deploy:
    """The first time that a worker ran a version; `x` in the SVG's units."""

    x: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Stacked bars; `peak` is the highest in words, "" for none."""

    title: str
    series: Sequence[Series]
    bars: Sequence[Bar]
    times: Sequence[str]
    deploys: Sequence[Deploy]
    peak: str
    width: int
    words: str


def _mean_seconds(counter: str) -> Callable[[Counts], float]:
    def measure(counts: Counts) -> float:
        settled = sum(counts[name] for name in COUNTED)
        return round(counts[counter] / settled / 1000, 3) if settled else 0

    return measure


def _number(count: float) -> str:
    return f"{count:,.0f}"


KINDS = (
    Kind(
        "Settled jobs",
        (
            Series("completed", "success", lambda counts: counts["completed"]),
            Series("failed", "danger", lambda counts: counts["failed"] + counts["dlq"]),
        ),
        _number,
        "jobqueue",
        "settled",
    ),
    Kind(
        "New dead letters",
        (Series("dead", "danger", lambda counts: counts["dlq"]),),
        _number,
        "deadletterqueue",
        "moved",
    ),
    Kind(
        "Mean time of a job",
        (
            Series("waiting", "warning", _mean_seconds("wait_ms")),
            Series("running", "primary", _mean_seconds("run_ms")),
        ),
        in_words,
        "jobqueue",
        "settled",
    ),
)


def charts(now: datetime, shown: Range) -> list[Chart]:
    """Return the charts of the firms in scope."""
    start = shown.start(now)
    counts = _counts(start, shown)
    deploys = _deploys(start, shown)
    return [_chart(kind, start, shown, counts, deploys) for kind in KINDS]


def _counts(start: datetime, shown: Range) -> list[Counts]:
    """Add up the counters of each bar."""
    counts = [Counter[str]() for _ in range(shown.count)]
    sums = {f"sum_{name}": Sum(name) for name in COUNTERS}
    for row in sum_counters("minute", sums, Q(minute__gte=start), shown.counters):
        number = int((row["minute"] - start).total_seconds() // (shown.bar_minutes * 60))
        counts[min(number, shown.count - 1)].update({name: row[f"sum_{name}"] for name in COUNTERS})
    return counts


def _deploys(start: datetime, shown: Range) -> list[Deploy]:
    """Return the versions first run since then, oldest first; the very first is no deploy."""
    seen = WorkerVersion.objects.order_by("-first_seen_at")[: VERSIONS_SHOWN + 1]
    newest = list(seen.values_list("version", "first_seen_at"))
    if len(newest) <= VERSIONS_SHOWN:
        newest = newest[:-1]
    bar = timedelta(minutes=shown.bar_minutes)
    return [
        Deploy(
            round((moment - start) / bar * BAR_STEP, 1),
            f"{version} since {moment.strftime(shown.time_format)}",
        )
        for version, moment in reversed(newest)
        if moment >= start
    ]


def _chart(
    kind: Kind,
    start: datetime,
    shown: Range,
    counts: Sequence[Counts],
    deploys: Sequence[Deploy],
) -> Chart:
    values = [{one.name: one.measure(bar) for one in kind.series} for bar in counts]
    most = max(sum(bar.values()) for bar in values)
    bar_time = timedelta(minutes=shown.bar_minutes)
    starts = [start + bar_time * number for number in range(shown.count)]
    peak = f"{kind.in_words(most)} in {in_words(bar_time.total_seconds())}"
    return Chart(
        kind.title,
        kind.series,
        [
            _bar(kind, number, (begin, begin + bar_time), bar, most)
            for number, (begin, bar) in enumerate(zip(starts, values, strict=True))
        ],
        [starts[at].strftime(shown.time_format) for at in (0, shown.count // 2, -1)],
        deploys,
        peak if most else "",
        shown.count * BAR_STEP,
        shown.words,
    )


def _bar(
    kind: Kind,
    number: int,
    period: tuple[datetime, datetime],
    values: dict[str, float],
    most: float,
) -> Bar:
    parts, top = [], float(HEIGHT)
    for one in kind.series:
        if values[one.name]:
            height = max(values[one.name] / most * HEIGHT, LEAST_HEIGHT)
            top -= height
            parts.append(Part(one.tone, round(top, 2), round(height, 2)))
    begin, end = period
    words = ", ".join(f"{kind.in_words(value)} {name}" for name, value in values.items() if value)
    return Bar(
        number * BAR_STEP,
        f"{begin:%d %b %H:%M} to {end:%H:%M}: {words or 'none'}",
        list_url(kind.listing, **{kind.period: f"{begin:%Y-%m-%dT%H:%MZ}..{end:%Y-%m-%dT%H:%MZ}"}),
        values,
        parts,
    )
