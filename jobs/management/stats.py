"""`manage.py jobs stats`."""

from __future__ import annotations

from rich.table import Column

from interfaces.commands import JsonCommand
from jobs.management.subcommand import Options, Result, subcommand
from jobs.queries.durations import in_words
from jobs.queries.serializers.stats import QueueStatsSerializer
from jobs.queries.stats import JobCounts, QueueStats, queue_stats
from jobs.states import Status

# Always shown; the other columns only where a category has a value for them.
_ALWAYS = ("Category", "Ready", "Running", "Done", "Dead")


@subcommand("stats", "Show counts by category and status, waits, throughput and failure rates.")
def show_stats(_: Options) -> Result:
    """Return the statistics."""
    stats = queue_stats()
    data = QueueStatsSerializer(stats).data
    return Result(data, lambda command: _print_stats(command, stats))


def _print_stats(command: JsonCommand, stats: QueueStats) -> None:
    totals, counts = stats.totals, stats.totals.statuses
    lines = [_line(category) for category in stats.categories if any(category.statuses.values())]
    if lines:
        names = [name for name in lines[0] if name in _ALWAYS or any(line[name] for line in lines)]
        columns = [
            Column(name, no_wrap=True, justify="left" if name == "Category" else "right")
            for name in names
        ]
        command.table("", columns, [[line[name] for name in names] for line in lines])
    command.stdout.write(
        f"{counts[Status.PENDING]} pending, {totals.in_flight} running, "
        f"{counts[Status.COMPLETED]} completed, {counts[Status.DLQ]} dead letters open, "
        f"{stats.workers} live workers. Rates are those of the last {stats.window_minutes} minutes."
    )


def _line(category: JobCounts) -> dict[str, object]:
    counts = category.statuses
    wait, rate = category.oldest_wait_seconds, category.failure_rate
    return {
        "Category": category.group,
        "Ready": category.runnable,
        "Running": category.in_flight,
        "Later": category.scheduled,
        "Locked": category.waiting_lock,
        "Done": counts[Status.COMPLETED],
        "Failed": counts[Status.FAILED],
        "Dead": counts[Status.DLQ],
        "Canceled": counts[Status.CANCELED],
        "Waits": None if wait is None else in_words(wait),
        "/min": f"{category.completed_per_minute:.1f}",
        "Fails": None if rate is None else f"{rate:.1%}",
    }
