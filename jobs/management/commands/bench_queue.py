"""`manage.py bench_queue SCENARIO`: measure the queue on the configured database."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.table import Column

from interfaces.commands import EXIT_INTERRUPTED, JsonCommand
from jobs.management.arguments import count
from jobs.management.benchmarks.firms import own_firms, refuse_shared_database
from jobs.management.benchmarks.scenario import Plan, Scenario, report
from jobs.management.benchmarks.scenarios import SCENARIOS
from jobs.management.subcommand import refusals

_FIGURES = {
    "seconds": "seconds",
    "jobs_per_second": "jobs/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "raw_jobs_per_second": "raw jobs/s",
    "ratio": "ratio",
}


class Command(JsonCommand):
    """Measures one thing, and leaves the database as it was."""

    help = (
        "Measure the queue on the configured database, beside bare SQL on the same table. Creates "
        "its own firms and jobs, and deletes them afterwards."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the scenario and its extent."""
        parser.add_argument("scenario", choices=list(SCENARIOS))
        parser.add_argument("--jobs", type=count, metavar="N", help="number of jobs")
        parser.add_argument(
            "--firms", type=count, metavar="N", help="number of firms that share the jobs"
        )
        parser.add_argument(
            "--concurrency", type=count, metavar="N", help="handlers at a time per worker process"
        )
        parser.add_argument("--processes", type=count, metavar="N", help="worker processes")
        parser.add_argument(
            "--rounds",
            type=count,
            default=1,
            metavar="N",
            help="measure this many times, queue and raw in turn, and take the medians (default: "
            "1)",
        )
        parser.add_argument(
            "--yes", action="store_true", help="run even if the database has other jobs or workers"
        )

    def handle(self, *_: Any, scenario: str, json: bool, yes: bool, **options: Any) -> None:
        """Run the scenario, clean up, and print the figures."""
        chosen = SCENARIOS[scenario]
        plan = Plan(
            jobs=options["jobs"] or chosen.default_jobs,
            firms=options["firms"] or chosen.default_firms,
            concurrency=options["concurrency"] or chosen.default_concurrency,
            processes=options["processes"] or chosen.default_processes,
            rounds=options["rounds"],
        )
        with refusals(), _interruptible():
            if not yes:
                refuse_shared_database()
            with own_firms():
                figures = chosen.run(plan)
        measured = report(chosen, plan, figures)
        if json:
            self.emit(measured)
        else:
            print_report(self, chosen, measured)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Handle SIGTERM as Ctrl-C: clean up and exit."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        message = "interrupted; what the benchmark had created is deleted"
        raise CommandError(message, returncode=EXIT_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def print_report(command: JsonCommand, scenario: Scenario, measured: dict[str, Any]) -> None:
    """Print what was measured, each measurement, and the figures."""
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
