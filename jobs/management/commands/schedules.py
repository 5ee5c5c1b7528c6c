"""`manage.py schedules`: list, run, pause, resume."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.table import Column

from jobs.management import arguments
from jobs.management.arguments import find_one, row_id
from jobs.management.subcommand import CommandGroup, Options, Result, list_subcommand, subcommand
from jobs.management.tables import id_column
from jobs.models import Schedule
from jobs.operations import schedules
from jobs.queries.durations import since_in_words
from jobs.queries.serializers.schedules import ScheduleRowSerializer, timetable_in_words
from tenants.cli import operator

_ARGUMENTS = (row_id("schedule"), arguments.REASON)


def _columns() -> Sequence[str | Column]:
    next_run, firm = Column("Next run", no_wrap=True), Column("Firm", no_wrap=True)
    return [id_column("Schedule"), "Name", "Type", "Runs", next_run, firm]


def _cells(row: Schedule, now: datetime) -> Sequence[object]:
    return [
        row.pk,
        row.name,
        row.job_type,
        timetable_in_words(row),
        since_in_words(row.next_run_at, now) if row.enabled else "paused",
        row.firm.slug,
    ]


_list = list_subcommand(
    "List schedules, the latest made first.",
    rows=lambda _: Schedule.objects.select_related("firm"),
    serializer=ScheduleRowSerializer,
    columns=_columns,
    cells=_cells,
    empty="No schedules.",
)


@subcommand("run", "Run a schedule once, now; its own runs stay as they are.", *_ARGUMENTS)
def _run(options: Options) -> Result:
    row = _find(options)
    jobs = schedules.run_now(row, by=operator(), reason=options["reason"])
    return _result(row, f"{row.name} was run: {jobs} new jobs.")


@subcommand("pause", "Pause a schedule until it is resumed.", *_ARGUMENTS)
def _pause(options: Options) -> Result:
    row = schedules.pause(_find(options), by=operator(), reason=options["reason"])
    return _result(row, f"{row.name} is paused.")


@subcommand(
    "resume", "Resume a paused schedule; what passed meanwhile is not made up for.", *_ARGUMENTS
)
def _resume(options: Options) -> Result:
    row = schedules.resume(_find(options), by=operator(), reason=options["reason"])
    next_run = f"{row.next_run_at:%Y-%m-%d %H:%M:%S} UTC"
    return _result(row, f"{row.name} runs again, next at {next_run}.")


def _find(options: Options) -> Schedule:
    row: Schedule = find_one(Schedule.objects.all(), "schedule", options["id"])
    return row


def _result(row: Schedule, text: str) -> Result:
    row = Schedule.objects.select_related("firm").get(pk=row.pk)
    return Result(ScheduleRowSerializer(row).data, text)


class Command(CommandGroup):
    """The queue's schedules."""

    help = "Look at schedules; run, pause and resume them."
    subcommands = (_list, _run, _pause, _resume)
