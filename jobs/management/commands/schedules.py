"""`manage.py schedules`: list, runs, run, pause, resume."""

from __future__ import annotations

from rich.table import Column

from interfaces.moments import iso
from jobs.management import arguments
from jobs.management.arguments import row_id, row_ids
from jobs.management.subcommand import CommandGroup, Options, Resource, Result, subcommand
from jobs.management.tables import error_column, id_column
from jobs.models import Schedule, ScheduleRun
from jobs.operations import schedules
from jobs.queries.durations import since_in_words
from jobs.queries.lists import runs_of
from jobs.queries.serializers.schedules import (
    ScheduleRowSerializer,
    ScheduleRunSerializer,
    timetable_in_words,
)
from tenants.cli import operator

_ARGUMENTS = (row_ids("schedule"), arguments.REASON)
SCHEDULES = Resource(
    "schedule", lambda: Schedule.objects.select_related("firm"), ScheduleRowSerializer
)

RUNS = Resource("run", lambda: ScheduleRun.objects.select_related("firm"), ScheduleRunSerializer)

_list = SCHEDULES.list(
    "List schedules, the latest first.",
    columns=lambda: [
        id_column("Schedule"),
        *("Name", "Type", "Runs"),
        *(Column(heading, no_wrap=True) for heading in ("Next run", "Firm")),
        error_column("Last error"),
    ],
    cells=lambda row, now: [
        row.pk,
        row.name,
        row.job_type,
        timetable_in_words(row),
        since_in_words(row.next_run_at, now) if row.enabled else "paused",
        row.firm.slug,
        row.last_error or None,
    ],
    empty="No schedules. Those that job types declare are stored when a worker starts.",
)


_runs = RUNS.list(
    "List a schedule's runs, the latest first, with what became of their jobs.",
    row_id("schedule"),
    name="runs",
    columns=lambda: [
        Column("Slot", no_wrap=True),
        *("Outcome", "Jobs", "Failed", "Started", "Finished"),
        error_column("Error"),
    ],
    cells=lambda row, now: [
        "out of turn" if row.slot is None else iso(row.slot),
        row.outcome or "goes on",
        row.jobs,
        row.failed,
        *(
            "-" if moment is None else since_in_words(moment, now)
            for moment in (row.started_at, row.finished_at)
        ),
        row.error,
    ],
    empty="No recent runs.",
    rows=lambda options: runs_of(SCHEDULES.find(options)),
)


@subcommand("run", "Run a schedule once, now; its next planned run does not change.", *_ARGUMENTS)
def _run(options: Options) -> Result:
    row = SCHEDULES.find(options)
    jobs = schedules.run_now(row, by=operator(), reason=options["reason"])
    return SCHEDULES.result(row, lambda row: f"{row.name} was run: {jobs} new jobs.")


_pause = SCHEDULES.operation(
    "pause",
    "Pause a schedule: it enqueues no more jobs until it is resumed.",
    *_ARGUMENTS,
    operate=schedules.pause,
    text=lambda row: f"{row.name} is paused.",
)
_resume = SCHEDULES.operation(
    "resume",
    "Resume a paused schedule; runs that it missed while paused are skipped.",
    *_ARGUMENTS,
    operate=schedules.resume,
    text=lambda row: (
        f"{row.name} is resumed; its next run is at {row.next_run_at:%Y-%m-%d %H:%M:%S} UTC."
    ),
)


class Command(CommandGroup):
    """The queue's schedules."""

    help = "List schedules; run, pause and resume them."
    subcommands = (_list, _runs, _run, _pause, _resume)
