"""`manage.py bulk`: list, show and stop bulk runs; `dlq bulk` and `jobs bulk` start them."""

from __future__ import annotations

from interfaces.commands import JsonCommand
from interfaces.tables import printable
from jobs.management import arguments
from jobs.management.arguments import row_id, row_ids
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import columns_of
from jobs.models import BulkRun
from jobs.operations import bulk as operations
from jobs.queries.bulk import canary_in_words, details_of_run, selection_in_words
from jobs.queries.durations import since_in_words
from jobs.queries.lists import bulk_runs
from jobs.queries.serializers.bulk import BulkRunDetailSerializer, BulkRunSerializer

# Printed as sentences below the other facts.
LISTS = ("refusals", "why_waiting")

_ID = row_id("bulk run")
RUNS = Resource("bulk run", bulk_runs, BulkRunSerializer)

_list = RUNS.list(
    "List bulk runs, newest first.",
    columns=lambda: columns_of(
        "Run", "Operation", "State", "Done", "Refused", "Of", "Firm", "By", "Started"
    ),
    cells=lambda run, now: [
        run.pk,
        run.operation.replace("_", " "),
        run.state.replace("_", " "),
        run.done,
        run.refused,
        run.total,
        run.firm.slug,
        run.started_by_name,
        since_in_words(run.created_at, now),
    ],
    empty="No bulk runs.",
)


@subcommand("show", "Show one bulk run: its progress, and why members were refused.", _ID)
def _show(options: Options) -> Result:
    details = details_of_run(RUNS.find(options))
    data = BulkRunDetailSerializer(details).data

    def show(command: JsonCommand) -> None:
        words = {
            "state": details.run.state.replace("_", " "),
            "selection": selection_in_words(details.run),
            "canary": canary_in_words(details.run),
        }
        told = {**data, **words}
        facts = [(name.replace("_", " "), told[name]) for name in told if name not in LISTS]
        command.facts(f"Bulk run {data['id']}", [fact for fact in facts if fact[1]])
        for reason in details.reasons:
            command.stdout.write(f"Its job is waiting: {printable(reason.detail)}")
        for why, number in details.refusals:
            command.stdout.write(f"{number:,} refused: {why}")

    return Result(data, show)


def _stopped(run: BulkRun) -> str:
    return f"Bulk run {run.pk} is {run.state}: {run.handled:,} of {run.total:,} were handled."


_stop = RUNS.operation(
    "stop",
    "Stop the run: it handles no more members. What it has done stays as it is.",
    row_ids("bulk run"),
    arguments.REASON,
    operate=operations.stop,
    text=_stopped,
)


class Command(CommandGroup):
    """Bulk runs."""

    help = "List, show and stop bulk runs."
    subcommands = (_list, _show, _stop)
