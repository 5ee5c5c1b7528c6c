"""`manage.py batches`: list and show."""

from __future__ import annotations

from interfaces.commands import JsonCommand
from jobs.management.arguments import row_id
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import columns_of
from jobs.models import Batch
from jobs.queries.batches import batch_rows, progress_of
from jobs.queries.durations import since_in_words
from jobs.queries.serializers.batches import BatchDetailSerializer, BatchSerializer

BATCHES = Resource("batch", batch_rows, BatchSerializer)
_COUNTS = ("pending", "completed", "failed", "canceled")

_list = BATCHES.list(
    "List batches, the latest first, with how many of their jobs are in each state.",
    columns=lambda: columns_of(
        *("Batch", "Name", "State", *map(str.capitalize, _COUNTS), "Firm", "Created"),
    ),
    cells=lambda row, now: [
        row.pk,
        row.name or None,
        progress_of(row).state,
        *(getattr(progress_of(row), name) for name in _COUNTS),
        row.firm.slug,
        since_in_words(row.created_at, now),
    ],
    empty="No batches.",
)


@subcommand(
    "show",
    "Show one batch: its progress, the jobs that it enqueued, and which of its jobs failed.",
    row_id("batch"),
)
def _show(options: Options) -> Result:
    row: Batch = BATCHES.find(options)
    data = BatchDetailSerializer(row).data

    def show(command: JsonCommand) -> None:
        facts = [(name.replace("_", " "), value) for name, value in data.items()]
        shown = [fact for fact in facts if fact[1] is not None and fact[0] != "failed jobs"]
        command.facts(f"Batch {row}", shown)
        for job_id in data["failed_jobs"]:
            command.stdout.write(f"failed: {job_id}")

    return Result(data, show)


class Command(CommandGroup):
    """Jobs that were enqueued as one."""

    help = "List and show batches."
    subcommands = (_list, _show)
