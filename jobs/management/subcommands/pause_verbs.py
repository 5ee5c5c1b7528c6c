"""`manage.py pauses list`, `add`, `resume`."""

from __future__ import annotations

from datetime import datetime

from django.core.management.base import CommandError, CommandParser
from rich.table import Column

from interfaces.commands import JsonCommand, printable
from jobs.engine.database_time import database_now
from jobs.management.subcommands.arguments import (
    EXIT_USAGE,
    add_page_options,
    cursor_refused,
    moment,
)
from jobs.management.subcommands.find import find_one, id_column
from jobs.management.subcommands.refusals import refusals
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import Pause
from jobs.operations import limits
from jobs.queries.durations import since_in_words
from jobs.queries.lists import CursorInvalid, get_page
from jobs.queries.serializers.limits import PauseSerializer
from jobs.states import Category
from tenants.cli import command_scope, operator


class ListPauses(Verb):
    """Lists pauses."""

    name = "list"
    help = "List pauses, the latest first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a page."""
        add_page_options(parser)

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print one page."""
        with command_scope(options["firm"]):
            try:
                page = get_page(
                    Pause.objects.select_related("firm"),
                    limit=options["limit"],
                    cursor=options["cursor"],
                )
            except CursorInvalid as error:
                raise cursor_refused(error) from error
            now = database_now()
        if options["json"]:
            rows = PauseSerializer(page.rows, many=True).data
            command.emit({"results": rows, "next": page.next_cursor})
            return
        if not page.rows:
            command.stdout.write("Nothing is paused.")
            return
        names = ["Firm", "Category", "Type", "Since", "Ends"]
        columns = [id_column("Pause"), *(Column(name, no_wrap=True) for name in names)]
        columns.append(Column("Reason", ratio=1))
        command.table("", columns, [_cells(pause, now) for pause in page.rows])
        if page.next_cursor is not None:
            command.stdout.write(f"More: --cursor {page.next_cursor}")


class AddPause(Verb):
    """Holds work back."""

    name = "add"
    help = "Let nothing that matches start until somebody resumes it; what runs goes on."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to hold back, why and until when."""
        parser.add_argument("--everywhere", action="store_true", help="for every firm")
        parser.add_argument("--category", choices=[category.value for category in Category])
        parser.add_argument("--type", dest="job_type", metavar="TYPE")
        parser.add_argument("--reason", required=True, help="why; shown with each job it holds")
        parser.add_argument("--until", type=moment, metavar="ISO", help="when it ends by itself")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Pause, and print the pause."""
        if options["everywhere"] == (options["firm"] is not None):
            raise CommandError("give either --firm SLUG or --everywhere", returncode=EXIT_USAGE)
        with command_scope(options["firm"]) as firm, refusals():
            pause = limits.pause(
                firm=firm,
                category=options["category"],
                job_type=options["job_type"],
                reason=options["reason"],
                until=options["until"],
                by=operator(),
            )
            row = PauseSerializer(pause).data
        if options["json"]:
            command.emit(row)
        else:
            command.stdout.write(f"Paused: {pause.pk}.")


class ResumePause(Verb):
    """Ends a pause."""

    name = "resume"
    help = "End a pause; what it held back runs in its turn."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the pause's id, and why."""
        parser.add_argument("id", help="the pause's id, or enough of its beginning")
        parser.add_argument("--reason", default="", help="why; kept in the audit log")

    def run(self, command: JsonCommand, options: Options) -> None:
        """End the pause, and print it as it was."""
        with command_scope(options["firm"]):
            pause = find_one(Pause.objects.select_related("firm"), "pause", options["id"])
            with refusals():
                limits.resume(pause, reason=options["reason"], by=operator())
            row = PauseSerializer(pause).data
        if options["json"]:
            command.emit(row)
        else:
            command.stdout.write(f"Resumed: {pause.pk}.")


def _cells(pause: Pause, now: datetime) -> list[object]:
    ends = None if pause.until is None else since_in_words(pause.until, now)
    return [
        pause.pk,
        "every firm" if pause.everywhere else pause.firm.slug,
        pause.category or "every",
        pause.job_type or "every",
        since_in_words(pause.created_at, now),
        ends or "by hand",
        printable(pause.reason.partition("\n")[0]),
    ]
