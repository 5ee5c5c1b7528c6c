"""`manage.py jobs stats`."""

from __future__ import annotations

from django.core.management.base import CommandParser
from rich.table import Column

from interfaces.commands import JsonCommand
from jobs.management.subcommands.verbs import Options, Verb
from jobs.queries.durations import in_words
from jobs.queries.stats import CategoryStats, QueueStats, queue_stats
from tenants.cli import command_scope

# What stands in every line; the rest only where some category has it.
_ALWAYS = ("Category", "Ready", "Running", "Done", "Dead")


class ShowStats(Verb):
    """Shows queue statistics."""

    name = "stats"
    help = "Show counts by category and status, waits, throughput and failure rates."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take nothing more."""

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print the figures."""
        with command_scope(options["firm"]):
            stats = queue_stats()
        if options["json"]:
            command.emit(stats)
        else:
            _print_stats(command, stats)


def _print_stats(command: JsonCommand, stats: QueueStats) -> None:
    totals = stats["totals"]
    lines = [_line(row) for row in stats["categories"] if _is_active(row)]
    if lines:
        names = [name for name in lines[0] if name in _ALWAYS or any(line[name] for line in lines)]
        columns = [
            Column(name, no_wrap=True, justify="left" if name == "Category" else "right")
            for name in names
        ]
        command.table("", columns, [[line[name] for name in names] for line in lines])
    running = totals["claimed"] + totals["processing"]
    command.stdout.write(
        f"{totals['pending']} pending, {running} running, {totals['completed']} completed, "
        f"{stats['dead_letters_open']} dead letters open, {stats['workers']} live workers. "
        f"Rates are those of the last {stats['window_minutes']} minutes."
    )


def _is_active(row: CategoryStats) -> bool:
    counts = ("pending", "claimed", "processing", "completed", "failed", "dlq", "canceled")
    return any(row[name] for name in counts)  # type: ignore[literal-required]  # the names are its keys


def _line(row: CategoryStats) -> dict[str, object]:
    wait, rate = row["oldest_wait_seconds"], row["failure_rate"]
    return {
        "Category": row["category"],
        "Ready": row["runnable"],
        "Running": row["claimed"] + row["processing"],
        "Later": row["scheduled"],
        "Locked": row["waiting_lock"],
        "Done": row["completed"],
        "Failed": row["failed"],
        "Dead": row["dlq"],
        "Canceled": row["canceled"],
        "Waits": None if wait is None else in_words(wait),
        "/min": f"{row['completed_per_minute']:.1f}",
        "Fails": None if rate is None else f"{rate:.1%}",
    }
