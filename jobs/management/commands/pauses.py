"""`manage.py pauses`: list, add, resume."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.table import Column

from interfaces.commands import printable
from jobs.management import arguments
from jobs.management.arguments import argument, find_one, row_id
from jobs.management.subcommand import CommandGroup, Options, Result, list_subcommand, subcommand
from jobs.management.tables import columns_of
from jobs.models import Pause
from jobs.operations import limits
from jobs.queries.durations import since_in_words
from jobs.queries.serializers.limits import PauseSerializer
from tenants.cli import operator


def _cells(row: Pause, now: datetime) -> Sequence[object]:
    return [
        row.pk,
        "every firm" if row.everywhere else row.firm.slug,
        row.category or "every",
        row.job_type or "every",
        since_in_words(row.created_at, now),
        "by hand" if row.until is None else since_in_words(row.until, now),
        printable(row.reason.partition("\n")[0]),
    ]


_list = list_subcommand(
    "List pauses, the latest first.",
    rows=lambda _: Pause.objects.select_related("firm"),
    serializer=PauseSerializer,
    columns=lambda: [
        *columns_of("Pause", "Firm", "Category", "Type", "Since", "Ends"),
        Column("Reason", ratio=1),
    ],
    cells=_cells,
    empty="Nothing is paused.",
)


@subcommand(
    "add",
    "Let nothing that matches start until somebody resumes it; what runs goes on.",
    arguments.CATEGORY,
    arguments.TYPE,
    argument("--reason", required=True, help="why; shown with each job it holds"),
    argument("--until", type=arguments.moment, metavar="ISO", help="when it ends by itself"),
    everywhere=True,
)
def _add(options: Options) -> Result:
    pause = limits.pause(
        firm=options["firm"],
        category=options["category"],
        job_type=options["job_type"],
        reason=options["reason"],
        until=options["until"],
        by=operator(),
    )
    return Result(PauseSerializer(pause).data, f"Paused: {pause.pk}.")


@subcommand(
    "resume",
    "End a pause; what it held back runs in its turn.",
    row_id("pause"),
    arguments.REASON,
)
def _resume(options: Options) -> Result:
    pause = find_one(Pause.objects.select_related("firm"), "pause", options["id"])
    limits.resume(pause, reason=options["reason"], by=operator())
    return Result(PauseSerializer(pause).data, f"Resumed: {pause.pk}.")


class Command(CommandGroup):
    """The pauses in the queue."""

    help = "Hold work back, and let it go on."
    subcommands = (_list, _add, _resume)
