"""`manage.py dlq list`."""

from __future__ import annotations

from django.core.management.base import CommandParser
from rich.table import Column

from interfaces.commands import JsonCommand
from jobs.engine.database_time import database_now
from jobs.management.subcommands.arguments import add_page_options, cursor_refused, since
from jobs.management.subcommands.find import id_column
from jobs.management.subcommands.job_table import error_column, first_line
from jobs.management.subcommands.verbs import Options, Verb
from jobs.queries.durations import since_in_words
from jobs.queries.filters import filter_dead_letters
from jobs.queries.lists import CursorInvalid, dead_letters, get_page
from jobs.queries.serializers.jobs import DeadLetterSerializer
from jobs.states import Category, DeadReason, Resolution
from tenants.cli import command_scope

_COLUMNS = ("Type", "Reason", "Moved", "Decision")


class ListDeadLetters(Verb):
    """Lists dead letters, newest first."""

    name = "list"
    help = "List dead letters, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the filters of the list."""
        parser.add_argument(
            "--status",
            choices=["open", *(word.value for word in Resolution)],
            help="open: no decision yet, escalated ones among them",
        )
        parser.add_argument("--reason", choices=[reason.value for reason in DeadReason])
        parser.add_argument("--category", choices=[category.value for category in Category])
        parser.add_argument("--type", dest="job_type", metavar="TYPE")
        parser.add_argument(
            "--since", type=since, metavar="WHEN", help="moved since: a time, or 30m, 6h, 2d"
        )
        add_page_options(parser)

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print one page."""
        with command_scope(options["firm"]):
            rows = filter_dead_letters(
                dead_letters(),
                resolution=options["status"],
                reason=options["reason"],
                category=options["category"],
                job_type=options["job_type"],
                created_after=options["since"],
            )
            try:
                page = get_page(rows, limit=options["limit"], cursor=options["cursor"])
            except CursorInvalid as error:
                raise cursor_refused(error) from error
            now = database_now()
        if options["json"]:
            results = DeadLetterSerializer(page.rows, many=True).data
            command.emit({"results": results, "next": page.next_cursor})
            return
        if not page.rows:
            command.stdout.write("No dead letters.")
            return
        command.table(
            "",
            [
                id_column("Dead letter"),
                *(Column(name, no_wrap=True) for name in _COLUMNS),
                error_column("Error"),
            ],
            [
                (
                    row.pk,
                    row.original_job.job_type,
                    row.reason,
                    since_in_words(row.moved_at, now),
                    row.resolution or "open",
                    first_line(f"{row.error_class} {row.error}") or None,
                )
                for row in page.rows
            ],
        )
        if page.next_cursor is not None:
            command.stdout.write(f"More: --cursor {page.next_cursor}")
