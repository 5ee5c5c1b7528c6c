"""What a benchmark is: its parameters, its figures, and the arithmetic of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from django.db import connection

# The figures, by the names in FIGURES; `points` are the single measurements behind them, each with
# the same keys.
Figures = dict[str, Any]
FIGURES = ("seconds", "jobs_per_second", "p50_ms", "p99_ms", "raw_jobs_per_second", "ratio")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much to measure."""

    jobs: int
    firms: int
    concurrency: int
    processes: int
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing to measure: `manage.py bench_queue NAME`.

    `run` makes the firms and jobs that it needs; the caller deletes them. It raises BenchmarkFailed
    when there is no result.
    """

    name: str
    # What is measured, as a sentence.
    measures: str
    run: Callable[[Plan], Figures]
    # Whether worker processes take part; otherwise `concurrency` and `processes` are not used.
    has_workers: bool = False
    default_jobs: int
    default_firms: int = 100
    default_concurrency: int = 1
    default_processes: int = 1


def report(scenario: Scenario, plan: Plan, figures: Figures) -> dict[str, Any]:
    """Return the figures as the command's JSON: None for those that are not measured."""
    return {
        "scenario": scenario.name,
        "database": connection.vendor,
        **asdict(plan),
        **{name: _rounded(figures.get(name)) for name in FIGURES},
        "points": [
            {name: _rounded(value) for name, value in point.items()} for point in figures["points"]
        ],
    }


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed; there must be some."""
    ordered = sorted(values)
    return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)]


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 where all are equal, 1/n where one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
