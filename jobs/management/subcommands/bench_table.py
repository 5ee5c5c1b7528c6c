"""What a benchmark found, for people."""

from __future__ import annotations

from typing import Any

from rich.table import Column

from interfaces.commands import JsonCommand
from jobs.benchmarks.scenario import Scenario

_FIGURES = {
    "seconds": "seconds",
    "jobs_per_second": "jobs/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "raw_jobs_per_second": "raw jobs/s",
    "ratio": "ratio",
}


def print_report(command: JsonCommand, scenario: Scenario, measured: dict[str, Any]) -> None:
    """Print what was measured in words, the single measurements, and the figures."""
    command.stdout.write(f"{_extent(scenario, measured)}\n{scenario.measures}\n\n")
    points = measured["points"]
    if len(points) == 1:
        more = [(name, value) for name, value in points[0].items() if name not in _FIGURES]
        command.facts("", [(_heading(name), _cell(value)) for name, value in more])
    elif points:
        columns = [
            Column(_heading(name), justify="left" if isinstance(value, str) else "right")
            for name, value in points[0].items()
        ]
        command.table("", columns, [[_cell(value) for value in one.values()] for one in points])
    known = [name for name in _FIGURES if measured[name] is not None]
    command.facts("", [(_heading(name), _cell(measured[name])) for name in known])


def _extent(scenario: Scenario, measured: dict[str, Any]) -> str:
    text = f"{scenario.name} on {measured['database']}: {measured['jobs']:,} jobs"
    text += f", {measured['firms']:,} firms"
    if scenario.has_workers:
        processes = measured["processes"]
        workers = "1 worker process" if processes == 1 else f"{processes} worker processes"
        text += f", {workers}, {measured['concurrency']} at a time"
    return text if measured["rounds"] == 1 else f"{text}, medians of {measured['rounds']} rounds"


def _heading(name: str) -> str:
    return _FIGURES.get(name, name.replace("_", " "))


def _cell(value: object) -> object:
    match value:
        case bool() | None:
            return value
        case int() | float() if value >= 100:
            return f"{value:,.0f}"
        case float():
            return f"{value:.3g}"
    return value
