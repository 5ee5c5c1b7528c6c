"""`manage.py schedules list`."""

from __future__ import annotations

from django.core.management.base import CommandParser
from rich.table import Column

from interfaces.commands import JsonCommand
from jobs.engine.database_time import database_now
from jobs.management.subcommands.arguments import add_page_options, cursor_refused
from jobs.management.subcommands.find import id_column
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import Schedule
from jobs.queries.durations import since_in_words
from jobs.queries.lists import CursorInvalid, get_page
from jobs.queries.serializers.schedules import ScheduleRowSerializer, timetable_in_words
from tenants.cli import command_scope


class ListSchedules(Verb):
    """Lists schedules, the latest made first."""

    name = "list"
    help = "List schedules, the latest made first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the page."""
        add_page_options(parser)

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print one page."""
        with command_scope(options["firm"]):
            try:
                page = get_page(
                    Schedule.objects.select_related("firm"),
                    limit=options["limit"],
                    cursor=options["cursor"],
                )
            except CursorInvalid as error:
                raise cursor_refused(error) from error
            if options["json"]:
                rows = ScheduleRowSerializer(page.rows, many=True).data
                command.emit({"results": rows, "next": page.next_cursor})
                return
            if not page.rows:
                command.stdout.write("No schedules.")
                return
            now = database_now()
            command.table(
                "",
                [
                    id_column("Schedule"),
                    "Name",
                    "Type",
                    "Runs",
                    Column("Next run", no_wrap=True),
                    Column("Firm", no_wrap=True),
                ],
                [
                    (
                        row.pk,
                        row.name,
                        row.job_type,
                        timetable_in_words(row),
                        since_in_words(row.next_run_at, now) if row.enabled else "paused",
                        row.firm.slug,
                    )
                    for row in page.rows
                ],
            )
            if page.next_cursor is not None:
                command.stdout.write(f"More: --cursor {page.next_cursor}")
