"""`manage.py rate_limits list`, `set`, `clear`."""

from __future__ import annotations

from django.core.management.base import CommandError, CommandParser
from rich.table import Column

from interfaces.commands import JsonCommand
from jobs.management.subcommands.arguments import EXIT_USAGE, add_page_options, cursor_refused
from jobs.management.subcommands.find import find_one, id_column
from jobs.management.subcommands.refusals import refusals
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import RateLimit
from jobs.operations import limits
from jobs.queries.lists import CursorInvalid, get_page
from jobs.queries.serializers.limits import RateLimitSerializer
from tenants.cli import command_scope, operator


class ListRateLimits(Verb):
    """Lists rate limits."""

    name = "list"
    help = "List rate limits, the latest first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a page."""
        add_page_options(parser)

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print one page."""
        with command_scope(options["firm"]):
            try:
                page = get_page(
                    RateLimit.objects.select_related("firm"),
                    limit=options["limit"],
                    cursor=options["cursor"],
                )
            except CursorInvalid as error:
                raise cursor_refused(error) from error
        if options["json"]:
            rows = RateLimitSerializer(page.rows, many=True).data
            command.emit({"results": rows, "next": page.next_cursor})
            return
        if not page.rows:
            command.stdout.write("Nothing is limited.")
            return
        names = ["Firm", "Type", "Starts", "In seconds", "Burst"]
        columns = [id_column("Limit"), *(Column(name, no_wrap=True) for name in names)]
        command.table("", columns, [_cells(limit) for limit in page.rows])
        if page.next_cursor is not None:
            command.stdout.write(f"More: --cursor {page.next_cursor}")


class SetRateLimit(Verb):
    """Limits how often a type starts."""

    name = "set"
    help = "Let a type start no more often than this, each firm counted for itself."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the type, the rate and for whom."""
        parser.add_argument("--everywhere", action="store_true", help="for every firm")
        parser.add_argument("--type", dest="job_type", metavar="TYPE", required=True)
        parser.add_argument("--amount", type=int, required=True, metavar="N", help="so many starts")
        parser.add_argument(
            "--per", type=float, required=True, metavar="SECONDS", help="in so many seconds"
        )
        parser.add_argument(
            "--burst", type=int, metavar="N", help="at once after a quiet time; else as the amount"
        )

    def run(self, command: JsonCommand, options: Options) -> None:
        """Set the limit, and print it."""
        if options["everywhere"] == (options["firm"] is not None):
            raise CommandError("give either --firm SLUG or --everywhere", returncode=EXIT_USAGE)
        with command_scope(options["firm"]) as firm, refusals():
            limit = limits.set_rate_limit(
                options["job_type"],
                options["amount"],
                options["per"],
                burst=options["burst"],
                firm=firm,
                by=operator(),
            )
            row = RateLimitSerializer(limit).data
        if options["json"]:
            command.emit(row)
        else:
            command.stdout.write(f"Set: {limit.pk}, {limit}.")


class ClearRateLimit(Verb):
    """Takes a limit away."""

    name = "clear"
    help = "Take a rate limit away; what waits for it starts as fast as workers take it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the limit's id, and why."""
        parser.add_argument("id", help="the limit's id, or enough of its beginning")
        parser.add_argument("--reason", default="", help="why; kept in the audit log")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Clear the limit, and print it as it was."""
        with command_scope(options["firm"]):
            limit = find_one(RateLimit.objects.select_related("firm"), "rate limit", options["id"])
            with refusals():
                limits.clear_rate_limit(
                    limit.job_type,
                    firm=None if limit.everywhere else limit.firm,
                    reason=options["reason"],
                    by=operator(),
                )
            row = RateLimitSerializer(limit).data
        if options["json"]:
            command.emit(row)
        else:
            command.stdout.write(f"Cleared: {limit.pk}, {limit}.")


def _cells(limit: RateLimit) -> list[object]:
    return [
        limit.pk,
        "every firm" if limit.everywhere else limit.firm.slug,
        limit.job_type,
        limit.amount,
        f"{limit.per_seconds:g}",
        limit.burst,
    ]
