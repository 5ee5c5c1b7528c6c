"""`dlq bulk` and `jobs bulk`: one operation on many dead letters or jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from interfaces.commands import EXIT_USAGE, JsonCommand
from jobs.management.arguments import Argument, argument, begin_of
from jobs.management.subcommand import Options, Result, Subcommand, subcommand
from jobs.operations import bulk
from jobs.operations.bulk import CANARY_SIZE, MAX_FAILURE_RATE, BulkSpec, Pace
from jobs.queries.bulk import Selection, Totals, details_of_run
from jobs.queries.serializers.bulk import BulkRunDetailSerializer, BulkTotalsSerializer
from jobs.states import BulkOperation
from tenants.cli import operator


def bulk_subcommand(
    operations: Sequence[BulkOperation], noun: str, filters: Mapping[str, str], *own: Argument
) -> Subcommand:
    """Return the subcommand `bulk`; `filters` has the filter of each option that narrows the rows."""
    of_discard = "; required for a discard" if BulkOperation.DISCARD in operations else ""

    @subcommand(
        "bulk",
        f"Change many {noun}s by a job. Without --start they are only counted.",
        argument("operation", choices=[word.value for word in operations]),
        argument("--id", dest="ids", action="append", type=UUID, help=f"a {noun}; may be repeated"),
        argument("--all", action="store_true", help="all on which the operation is possible"),
        *own,
        argument("--reason", default="", help=f"why; kept in the audit log{of_discard}"),
        argument("--start", action="store_true", help="start the run; without this, only count"),
        argument("--rate", type=float, metavar="N", help=f"{noun}s per second, at most"),
        argument(
            "--canary",
            type=int,
            nargs="?",
            default=0,
            const=CANARY_SIZE,
            metavar="N",
            help="try N of them first, as a canary (%(const)s without N), fewer than all; if too "
            "many of them fail again, the run stops",
        ),
        argument(
            "--max-failure-rate",
            type=float,
            default=MAX_FAILURE_RATE,
            help="stop if more than this fraction of the canary fails again (default: %(default)s)",
        ),
        everywhere=True,
    )
    def run(options: Options) -> Result:
        spec = _spec(options, filters)
        if not options["start"]:
            return _counted(spec.operation, bulk.preview(spec))
        started = bulk.start(spec, by=operator())
        text = (
            f"Bulk run {started.pk} with {started.total:,} {noun}s is started: manage.py bulk "
            f"show {started.pk}"
        )
        return Result(BulkRunDetailSerializer(details_of_run(started)).data, text)

    return run


def _spec(options: Options, filters: Mapping[str, str]) -> BulkSpec:
    return BulkSpec(
        operation=BulkOperation(options["operation"]),
        selection=_selection(options, filters),
        firm=options["firm"],
        reason=options["reason"],
        priority=options.get("priority"),
        pace=Pace(
            rate_per_second=options["rate"],
            canary_size=options["canary"],
            canary_max_failure_rate=options["max_failure_rate"],
        ),
    )


def _selection(options: Options, filters: Mapping[str, str]) -> Selection:
    values = {**options, "since": begin_of(options["since"])}
    chosen = {filters[name]: values[name] for name in filters}
    given = {name: value for name, value in chosen.items() if value is not None}
    ways = [bool(options["ids"]), bool(given), options["all"]]
    if sum(ways) != 1:
        raise CommandError("give either --id, filters, or --all", returncode=EXIT_USAGE)
    return Selection(ids=options["ids"]) if options["ids"] else Selection(filters=given)


def _counted(operation: BulkOperation, totals: Totals) -> Result:
    def show(command: JsonCommand) -> None:
        word = operation.replace("_", " ")
        command.stdout.write(f"{word}: {totals.count:,}. Nothing was done: add --start to do it.")
        rows: list[Any] = [(one.count, one.job_type, one.in_words) for one in totals.causes]
        if rows:
            command.table("", ["Count", "Type", "Cause"], rows)
            if more := totals.more_causes:
                command.stdout.write(f"and {more:,} less frequent cause{'s' * (more > 1)}")
            command.table("", ["Count", "Firm"], [(number, slug) for slug, number in totals.firms])

    return Result(BulkTotalsSerializer(totals).data, show)
