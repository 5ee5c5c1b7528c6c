"""The base of the benchmarks, their parameters and their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from django.db import connection

from jobs.benchmarks.firms import BenchmarkFirms

Point = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much to measure."""

    jobs: int
    firms: int
    concurrency: int
    processes: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured; None: the scenario does not measure it.

    `points` are the single measurements behind the figures, each with the same keys.
    """

    seconds: float | None = None
    jobs_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    raw_jobs_per_second: float | None = None
    ratio: float | None = None
    points: Sequence[Point] = field(default_factory=tuple)


class Scenario(ABC):
    """One thing to measure: `manage.py bench_queue NAME`."""

    name: ClassVar[str]
    # What is measured, as a sentence.
    measures: ClassVar[str]
    # Whether worker processes take part: else `concurrency` and `processes` mean nothing.
    has_workers: ClassVar[bool] = False
    default_jobs: ClassVar[int]
    default_firms: ClassVar[int] = 100
    default_concurrency: ClassVar[int] = 1
    default_processes: ClassVar[int] = 1

    @abstractmethod
    def measure(self, plan: Plan, bench_firms: BenchmarkFirms) -> Figures:
        """Measure it on rows of `bench_firms`; the caller deletes them.

        Raises:
            BenchmarkFailed: there is no result.
        """


def report(scenario: Scenario, plan: Plan, figures: Figures) -> dict[str, object]:
    """Return the figures as the command's JSON."""
    values = {name: _rounded(value) for name, value in asdict(figures).items() if name != "points"}
    return {
        "scenario": scenario.name,
        "database": connection.vendor,
        **asdict(plan),
        **values,
        "points": [
            {name: _rounded(value) for name, value in point.items()} for point in figures.points
        ],
    }


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
