"""`manage.py jobs stats`."""

from __future__ import annotations

from django.core.management.base import CommandParser
from rich.table import Column

from jobs.ages import in_words
from jobs.cli.verbs import Options, Verb
from jobs.stats import CategoryStats, QueueStats, queue_stats
from tenants.cli import JsonCommand, command_scope

_COLUMNS = (
    "Runnable", "Running", "Scheduled", "Locked", "Completed", "Failed", "Dead", "Canceled",
    "Oldest wait", "Per min", "Failing",
)  # fmt: skip


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
    active = [row for row in stats["categories"] if _is_active(row)]
    if active:
        columns: list[str | Column] = ["Category", *(Column(name, justify="right") for name in _COLUMNS)]
        command.table("", columns, [_cells(row) for row in active])
    running = totals["claimed"] + totals["processing"]
    command.stdout.write(
        f"{totals['pending']} pending, {running} running, {totals['completed']} completed, "
        f"{stats['dead_letters_open']} dead letters open, {stats['workers']} live workers. "
        f"Rates are those of the last {stats['window_minutes']} minutes."
    )


def _is_active(row: CategoryStats) -> bool:
    counts = ("pending", "claimed", "processing", "completed", "failed", "dlq", "canceled")
    return any(row[name] for name in counts)  # type: ignore[literal-required]  # the names are its keys


def _cells(row: CategoryStats) -> list[object]:
    wait, rate = row["oldest_wait_seconds"], row["failure_rate"]
    return [
        row["category"],
        row["runnable"],
        row["claimed"] + row["processing"],
        row["scheduled"],
        row["waiting_lock"],
        row["completed"],
        row["failed"],
        row["dlq"],
        row["canceled"],
        None if wait is None else in_words(wait),
        f"{row['completed_per_minute']:.1f}",
        None if rate is None else f"{rate:.1%}",
    ]
