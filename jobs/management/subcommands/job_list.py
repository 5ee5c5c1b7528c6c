"""`manage.py jobs list`."""

from __future__ import annotations

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand
from jobs.management.subcommands.arguments import add_page_options, cursor_refused, since
from jobs.management.subcommands.job_table import print_jobs
from jobs.management.subcommands.verbs import Options, Verb
from jobs.queries.filters import filter_jobs
from jobs.queries.lists import CursorInvalid, get_page, job_rows
from jobs.queries.serializers.jobs import JobRowSerializer
from jobs.states import Category, Status
from tenants.cli import command_scope


class ListJobs(Verb):
    """Lists jobs, newest first."""

    name = "list"
    help = "List jobs, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the filters of the list."""
        parser.add_argument("--status", choices=[status.value for status in Status])
        parser.add_argument("--category", choices=[category.value for category in Category])
        parser.add_argument("--type", dest="job_type", metavar="TYPE")
        parser.add_argument("--correlation-id", metavar="ID")
        parser.add_argument(
            "--since", type=since, metavar="WHEN", help="created since: a time, or 30m, 6h, 2d"
        )
        add_page_options(parser)

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print one page."""
        with command_scope(options["firm"]):
            rows = filter_jobs(
                job_rows(),
                status=options["status"],
                category=options["category"],
                job_type=options["job_type"],
                correlation_id=options["correlation_id"],
                created_after=options["since"],
            )
            try:
                page = get_page(rows, limit=options["limit"], cursor=options["cursor"])
            except CursorInvalid as error:
                raise cursor_refused(error) from error
            if options["json"]:
                results = JobRowSerializer(page.rows, many=True).data
                command.emit({"results": results, "next": page.next_cursor})
                return
            if page.rows:
                print_jobs(command, "", page.rows)
            else:
                command.stdout.write("No jobs.")
            if page.next_cursor is not None:
                command.stdout.write(f"More: --cursor {page.next_cursor}")
