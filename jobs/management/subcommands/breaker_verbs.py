"""`manage.py breakers list`, `open`, `close`."""

from __future__ import annotations

from datetime import datetime

from django.core.management.base import CommandError, CommandParser
from rich.table import Column

from interfaces.commands import JsonCommand
from jobs.engine.database_time import database_now
from jobs.management.subcommands.arguments import EXIT_USAGE, add_page_options, cursor_refused
from jobs.management.subcommands.find import find_one, id_column
from jobs.management.subcommands.refusals import refusals
from jobs.management.subcommands.verbs import Options, Verb
from jobs.models import CircuitBreaker
from jobs.operations import breakers
from jobs.queries.durations import since_in_words
from jobs.queries.lists import CursorInvalid, get_page
from jobs.queries.serializers.limits import BreakerSerializer
from jobs.states import BreakerState
from tenants.cli import command_scope, operator


class ListBreakers(Verb):
    """Lists circuit breakers."""

    name = "list"
    help = "List circuit breakers, the latest first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a page."""
        add_page_options(parser)

    def run(self, command: JsonCommand, options: Options) -> None:
        """Print one page."""
        with command_scope(options["firm"]):
            try:
                page = get_page(
                    CircuitBreaker.objects.select_related("firm"),
                    limit=options["limit"],
                    cursor=options["cursor"],
                )
            except CursorInvalid as error:
                raise cursor_refused(error) from error
            now = database_now()
        if options["json"]:
            rows = BreakerSerializer(page.rows, many=True).data
            command.emit({"results": rows, "next": page.next_cursor})
            return
        if not page.rows:
            command.stdout.write("Nothing has failed of late: no breaker counts.")
            return
        names = ["Firm", "Type", "State", "Trips", "Tried again", "Failure"]
        columns = [id_column("Breaker"), *(Column(name, no_wrap=True) for name in names)]
        command.table("", columns, [_cells(breaker, now) for breaker in page.rows])
        if page.next_cursor is not None:
            command.stdout.write(f"More: --cursor {page.next_cursor}")


class OpenBreaker(Verb):
    """Has a type's jobs of a firm wait."""

    name = "open"
    help = "Hold a type's jobs of a firm back; after the cooldown one is tried."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the type, and why."""
        parser.add_argument("--type", dest="job_type", metavar="TYPE", required=True)
        parser.add_argument("--reason", required=True, help="why; kept in the audit log")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Open the breaker, and print it."""
        with command_scope(options["firm"]) as firm, refusals():
            if firm is None:
                raise CommandError("give --firm SLUG", returncode=EXIT_USAGE)
            breakers.open_breaker(options["job_type"], firm, options["reason"], by=operator())
            breaker = CircuitBreaker.objects.select_related("firm").get(
                job_type=options["job_type"]
            )
        _tell(command, options, breaker, "Opened")


class CloseBreaker(Verb):
    """Has the jobs run again."""

    name = "close"
    help = "Let the jobs run that a breaker holds back; should they fail again, it opens again."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the breaker's id, and why."""
        parser.add_argument("id", help="the breaker's id, or enough of its beginning")
        parser.add_argument("--reason", required=True, help="why; kept in the audit log")

    def run(self, command: JsonCommand, options: Options) -> None:
        """Close the breaker, and print it."""
        with command_scope(options["firm"]):
            rows = CircuitBreaker.objects.select_related("firm")
            breaker = find_one(rows, "circuit breaker", options["id"])
            with refusals():
                breakers.close_breaker(breaker, options["reason"], by=operator())
            closed = rows.get(pk=breaker.pk)
        _tell(command, options, closed, "Closed")


def _tell(command: JsonCommand, options: Options, breaker: CircuitBreaker, did: str) -> None:
    if options["json"]:
        command.emit(BreakerSerializer(breaker).data)
    else:
        command.stdout.write(f"{did}: {breaker.pk}, {breaker.job_type} of {breaker.firm.slug}.")


def _cells(breaker: CircuitBreaker, now: datetime) -> list[object]:
    tried_at = breaker.probe_at if breaker.state == BreakerState.OPEN else None
    return [
        breaker.pk,
        breaker.firm.slug,
        breaker.job_type,
        breaker.get_state_display(),
        breaker.trips,
        None if tried_at is None else since_in_words(tried_at, now),
        breaker.fingerprint or None,
    ]
