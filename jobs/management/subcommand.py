"""Commands made of subcommands: `manage.py COMMAND SUBCOMMAND`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet
from rest_framework.serializers import Serializer
from rich.table import Column

from interfaces.commands import (
    EXIT_USAGE,
    CommandRefused,
    JsonCommand,
    NotFound,
    Refused,
    SubcommandParser,
)
from interfaces.tables import printable, write_csv
from jobs.engine.clock import database_now
from jobs.errors import ArgumentsInvalid, JobError, PayloadInvalid, UnknownJob
from jobs.management.arguments import CSV, CURSOR, LIMIT, Argument
from jobs.queries.filters import id_range
from jobs.queries.lists import CursorInvalid, get_page
from jobs.queries.search import FoundJobs, error_search
from tenants.cli import command_scope, operator
from tenants.errors import MissingTenant, TenantError

# An ambiguous id names so many rows, each with these of its fields.
CANDIDATES_SHOWN = 5
NOTHING_YET = "Nothing among the newest; the cursor leads on to older ones."
DESCRIBING = ("firm", "name", "job_type", "status", "reason", "state")

# The arguments by name; `firm` is the firm that `--firm` names, or None.
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """What `--json` prints; for people, a text or a function that prints; a warning for stderr."""

    data: object
    text: str | Callable[[JsonCommand], None]
    warning: str = ""


Run = Callable[[Options], Result]


def _print(command: JsonCommand, result: Result) -> None:
    if isinstance(result.text, str):
        command.stdout.write(result.text)
    else:
        result.text(command)


@dataclass(frozen=True)
class Subcommand:
    """One operation or query of a command; it runs in the scope of `--firm`, or of every firm."""

    name: str
    help: str
    arguments: Sequence[Argument]
    run: Run
    # Whether `--everywhere` must be given if `--firm` is not.
    everywhere: bool
    # The help of `--firm`, if that does not choose among the rows of all firms.
    firm_help: str = ""
    # Whether it writes nothing; on SQLite it then holds no lock, however long it counts.
    reads: bool = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Add `--firm` and the subcommand's own arguments."""
        otherwise = "required unless --everywhere" if self.everywhere else "without it, every firm"
        meaning = self.firm_help or f"only this firm; {otherwise}"
        parser.add_argument("--firm", metavar="SLUG", help=meaning)
        if self.everywhere:
            parser.add_argument("--everywhere", action="store_true", help="every firm")
        for add in self.arguments:
            add(parser)

    def execute(self, command: JsonCommand, options: Options) -> None:
        """Run the subcommand and print its result; with several ids, once for each.

        Raises:
            Refused: it cannot be done now.
            NotFound: the row does not exist.
            CommandError: the arguments do not go together, or some of several ids were refused.
        """
        if self.everywhere and options["everywhere"] == (options["firm"] is not None):
            raise CommandError("give either --firm SLUG or --everywhere", returncode=EXIT_USAGE)
        ids = list(dict.fromkeys(options.get("row_ids", ())))
        if len(ids) > 1:
            self._execute_each(command, options, ids)
            return
        scope = command_scope(options["firm"], reading=self.reads)
        with refusals(), command.printing_after(scope) as firm:
            own = {"id": ids[0]} if ids else {}
            result = self.run({**options, "firm": firm, **own})
            if result.warning:
                command.stderr.write(result.warning)
            if options["json"]:
                command.emit(result.data)
            else:
                _print(command, result)

    def _execute_each(self, command: JsonCommand, options: Options, ids: Sequence[str]) -> None:
        """Run the subcommand for each id in its own transaction; a refusal does not stop others."""
        done: list[object] = []
        refused: list[tuple[str, CommandRefused]] = []
        for one in ids:
            try:
                with command_scope(options["firm"]) as firm, refusals():
                    result = self.run({**options, "firm": firm, "id": one})
            except CommandRefused as error:
                refused.append((one, error))
                command.stderr.write(f"{one}: {error}")
                continue
            done.append(result.data)
            if result.warning:
                command.stderr.write(f"{one}: {result.warning}")
            if not options["json"]:
                _print(command, result)
        if options["json"]:
            errors = [{"id": one, **error.as_json()} for one, error in refused]
            command.emit({"results": done, "errors": errors})
        if refused:
            text = f"{len(refused)} of {len(ids)} were refused"
            raise CommandError(text, returncode=max(error.exit_code for _, error in refused))


def subcommand(
    name: str,
    help_text: str,
    *arguments: Argument,
    everywhere: bool = False,
    firm_help: str = "",
    reads: bool = False,
) -> Callable[[Run], Subcommand]:
    """Make a function of the options a subcommand."""
    return lambda run: Subcommand(name, help_text, arguments, run, everywhere, firm_help, reads)


@dataclass(frozen=True)
class Resource:
    """The rows that a command works on; `noun` names one in errors."""

    noun: str
    rows: Callable[[], QuerySet[Any]]
    serializer: type[Serializer[Any]]

    def find(self, options: Options) -> Any:
        """Return the one row whose id begins with the argument `id`.

        Raises:
            NotFound: there is no such row.
            Refused: there are several; the message lists the first of them.
        """
        text = options["id"]
        span = id_range(text)
        most = CANDIDATES_SHOWN + 1
        rows = list(self.rows().filter(pk__range=span).order_by("pk")[:most]) if span else []
        if not rows:
            raise NotFound(f"no {self.noun} has the id {text!r}")
        if len(rows) > 1:
            raise self._ambiguous(text, rows)
        return rows[0]

    def _ambiguous(self, text: str, rows: Sequence[Any]) -> Refused:
        shown = [self._described(row) for row in rows[:CANDIDATES_SHOWN]]
        more = ["  and others"] if len(rows) > CANDIDATES_SHOWN else []
        head = f"several {self.noun}s have ids that begin with {text!r}: give more of it"
        return Refused(
            "\n".join([head, *(f"  {line}" for line in shown), *more]),
            code="ambiguous_id",
            errors=[{"field": "id", "code": "candidate", "message": line} for line in shown],
        )

    def _described(self, row: Any) -> str:
        """Return the row's id and what tells it apart."""
        data = self.serializer(row).data
        words = [str(data[name]) for name in DESCRIBING if data.get(name)]
        return printable(" ".join([str(row.pk), *words]))

    def result(self, row: Any, text: Callable[[Any], str], warning: str = "") -> Result:
        """Return the row as it is now, or as it was if it is deleted."""
        now = self.rows().filter(pk=row.pk).first() or row
        return Result(self.serializer(now).data, text(now), warning)

    def list(
        self,
        help_text: str,
        *arguments: Argument,
        columns: Callable[[], Sequence[str | Column]],
        cells: Callable[[Any, datetime], Sequence[object]],
        empty: str,
        rows: Callable[[Options], QuerySet[Any] | FoundJobs] | None = None,
        name: str = "list",
    ) -> Subcommand:
        """Return the subcommand `name`, which prints a page of rows; `cells` gets row and time."""

        def run(options: Options) -> Result:
            found = self.rows() if rows is None else rows(options)
            if not (qualified := isinstance(found, FoundJobs)):
                found = FoundJobs(found)
            page = get_page(
                found.rows,
                limit=options["limit"],
                cursor=options["cursor"],
                window=found.window,
            )

            results = self.serializer(page.rows, many=True).data

            def show(command: JsonCommand) -> None:
                if options["csv"]:
                    write_csv(command.stdout, self.serializer().fields, results)
                elif page.rows:
                    now = database_now()
                    command.table("", columns(), [cells(row, now) for row in page.rows])
                else:
                    command.stdout.write(NOTHING_YET if page.next_cursor else empty)
                    searched = options.get("search") or ""
                    if instead := error_search(searched, qualified=qualified):
                        command.stdout.write(f"Text of errors: --search {shlex.quote(instead)}")
                if page.next_cursor is not None:
                    out = command.stderr if options["csv"] else command.stdout
                    out.write(f"More: --cursor {page.next_cursor}")

            return Result({"results": results, "next": page.next_cursor}, show)

        return subcommand(name, help_text, *arguments, LIMIT, CURSOR, CSV, reads=True)(run)

    def operation(
        self,
        name: str,
        help_text: str,
        *arguments: Argument,
        operate: Callable[..., object],
        text: Callable[[Any], str],
        takes: Sequence[str] = ("reason",),
    ) -> Subcommand:
        """Return a subcommand that calls `operate` with a row and the arguments it `takes`."""

        def run(options: Options) -> Result:
            row = self.find(options)
            operate(row, by=operator(), **{name: options[name] for name in takes})
            return self.result(row, text)

        return subcommand(name, help_text, *arguments)(run)


class CommandGroup(JsonCommand):
    """A command made of subcommands."""

    subcommands: ClassVar[Sequence[Subcommand]]

    def add_arguments(self, parser: CommandParser) -> None:
        """Give each subcommand its own parser."""
        parsers = parser.add_subparsers(
            dest="subcommand",
            required=True,
            metavar="SUBCOMMAND",
            parser_class=SubcommandParser,
        )
        for one in self.subcommands:
            own = parsers.add_parser(one.name, help=one.help, description=one.help)
            self.add_json_option(own)
            one.add_arguments(own)

    def handle(self, *_: Any, subcommand: str, **options: Any) -> None:
        """Run the subcommand of this name."""
        next(one for one in self.subcommands if one.name == subcommand).execute(self, options)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn the queue's errors into exit 1, an unknown row into 3, a wrong cursor into 2."""
    try:
        yield
    except PayloadInvalid as error:
        lines = [f"  {fault.field}: {fault.message} ({fault.code})" for fault in error.faults]
        message = "\n".join([f"payload of {error.job_type} refused:", *lines])
        raise Refused(message, code=error.code, errors=error.errors) from error
    except ArgumentsInvalid as error:
        raise Refused(str(error), code=error.code, errors=error.errors) from error
    except UnknownJob as error:
        raise NotFound(str(error)) from error
    except MissingTenant as error:
        raise Refused("there are several firms: give --firm SLUG", code=error.code) from error
    except (JobError, TenantError) as error:
        raise Refused(str(error), code=error.code) from error
    except CursorInvalid as error:
        raise CommandError(f"argument --cursor: {error}", returncode=EXIT_USAGE) from error
