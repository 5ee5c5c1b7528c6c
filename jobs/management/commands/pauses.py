"""`manage.py pauses`: list, add, resume."""

from __future__ import annotations

from rich.table import Column

from interfaces.tables import printable
from jobs.management import arguments
from jobs.management.arguments import argument, row_ids
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import columns_of, firm_of_limit
from jobs.models import Pause
from jobs.operations import limits
from jobs.queries.durations import since_in_words
from jobs.queries.serializers.limits import PauseSerializer
from tenants.cli import operator

PAUSES = Resource("pause", lambda: Pause.objects.select_related("firm"), PauseSerializer)

_list = PAUSES.list(
    "List pauses, the latest first.",
    columns=lambda: [
        *columns_of("Pause", "Firm", "Category", "Type", "Limit key", "Since", "Ends"),
        Column("Reason", ratio=1),
    ],
    cells=lambda row, now: [
        row.pk,
        firm_of_limit(row),
        row.category or "every",
        row.job_type or "every",
        row.limit_key or "every",
        since_in_words(row.created_at, now),
        "by hand" if row.until is None else since_in_words(row.until, now),
        printable(row.reason.partition("\n")[0]),
    ],
    empty="Nothing is paused.",
)


@subcommand(
    "add",
    "No matching job starts until somebody ends the pause; running jobs go on to their end.",
    arguments.CATEGORY,
    arguments.TYPE,
    arguments.LIMIT_KEY,
    argument("--reason", required=True, help="why; shown with each job that the pause holds back"),
    argument(
        "--until",
        type=arguments.moment,
        metavar="ISO",
        help="the pause ends by itself at this time",
    ),
    everywhere=True,
)
def _add(options: Options) -> Result:
    names = ("firm", "category", "job_type", "limit_key", "reason", "until")
    row = limits.pause(by=operator(), **{name: options[name] for name in names})
    return PAUSES.result(row, lambda row: f"Paused: {row.pk}.")


_resume = PAUSES.operation(
    "resume",
    "End a pause; the jobs that it held back may start.",
    row_ids("pause"),
    arguments.REASON,
    operate=limits.resume,
    text=lambda row: f"Resumed: {row.pk}.",
)


class Command(CommandGroup):
    """The pauses in the queue."""

    help = "Pause jobs, and let them start again."
    subcommands = (_list, _add, _resume)
