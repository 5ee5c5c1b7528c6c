"""The base of every command: `--json`, tables, exit codes."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    OutputWrapper,
)
from django.db import DatabaseError, InterfaceError
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from interfaces.database_faults import not_migrated, unusable
from interfaces.tables import print_padded, print_table, printable

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
# The exit code that shells give for a process ended by SIGINT.
EXIT_INTERRUPTED = 130

T = TypeVar("T")


class CommandRefused(CommandError):
    """A command that ends with a reason; `errors` lists field, code and message of each fault."""

    code = "refused"
    exit_code = EXIT_REFUSED

    def __init__(
        self, message: str, *, code: str = "", errors: Sequence[dict[str, str]] = ()
    ) -> None:
        super().__init__(message, returncode=self.exit_code)
        self.code = code or self.code
        self.errors = list(errors)

    def as_json(self) -> dict[str, object]:
        """Return the refusal as `--json` prints it."""
        return {"code": self.code, "detail": str(self), "errors": self.errors}


class Refused(CommandRefused):
    """The command cannot or may not be done now: exit 1."""


class NotFound(CommandRefused):
    """The command's object does not exist: exit 3."""

    code = "not_found"
    exit_code = EXIT_NOT_FOUND


def nonempty(text: str) -> str:
    """Return the text of an argument; a shell variable that is not set makes an empty one.

    Raises:
        ArgumentTypeError: the text is empty; the parser names the argument.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def nonempty_path(text: str) -> Path:
    """Return the path that an argument names; an empty one would mean the current directory.

    Raises:
        ArgumentTypeError: the text is empty; the parser names the argument.
    """
    return Path(nonempty(text))


class SubcommandParser(CommandParser):
    """Refuses an unknown argument with the subcommand's usage, not that of the whole command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; an unknown one is an error here."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Python before 3.13 makes an empty list of the value in `--option=--`.
        if action.option_strings and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)


class JsonCommand(BaseCommand):
    """A command with `--json`, which prints one object on stdout and all else on stderr."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Add `--json` to the command's own arguments."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        return parser

    def add_json_option(self, parser: CommandParser) -> None:
        """Add `--json` to a subcommand."""
        # A default would overwrite the value that was given before the subcommand's name.
        parser.add_argument(
            "--json",
            action="store_true",
            default=argparse.SUPPRESS,
            help="print one JSON object",
        )

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command as the command line asks; Ctrl-C ends it without a traceback."""
        try:
            super().run_from_argv(argv)
        except KeyboardInterrupt:
            self.stderr.write("interrupted")
            sys.exit(EXIT_INTERRUPTED)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command; with `--json` a refusal is an object on stdout too.

        Raises:
            Refused: the database is not migrated, or cannot be used.
            CommandError: an argument is not UTF-8, which no database can store.
        """
        _check_texts(options)
        try:
            with _database_faults_refused():
                return super().execute(*args, **options)
        except CommandRefused as refusal:
            if options.get("json"):
                self.emit(refusal.as_json())
            raise
        except BrokenPipeError:
            # The reader (head, less) closed the pipe; Python would complain when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None

    def emit(self, data: object) -> None:
        """Write `data` to stdout as one JSON object."""
        self.stdout.write(json.dumps(data, ensure_ascii=False, default=str))

    @contextmanager
    def printing_after(self, transaction: AbstractContextManager[T]) -> Iterator[T]:
        """Run the block in the transaction; print its output only after the commit.

        So no success is printed that the commit then refuses, and a slow reader of stdout does not
        prolong the transaction's locks.
        """
        stdout, held = self.stdout, StringIO()
        held.isatty = stdout.isatty  # type: ignore[method-assign]
        try:
            with transaction as entered:
                self.stdout = OutputWrapper(held)
                yield entered
        finally:
            self.stdout = stdout
        stdout.write(held.getvalue(), ending="")

    def console(self) -> Console:
        """Return a console that writes to this command's stdout."""
        return Console(
            file=self.stdout,  # type: ignore[arg-type]  # OutputWrapper is a text stream in all but name
            # Cells hold text from outside, whose brackets must not be read as markup.
            markup=False,
            highlight=False,
            emoji=False,
        )

    def table(
        self, title: str, columns: Sequence[str | Column], rows: Iterable[Sequence[object]]
    ) -> None:
        """Print a table; None prints as a dash."""
        print_table(self.console(), title, columns, rows)

    def facts(self, title: str, pairs: Iterable[tuple[str, object]]) -> None:
        """Print a heading, then a line for each pair of name and value."""
        grid = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))
        for name, value in pairs:
            grid.add_row(name, _cell(value))
        console = self.console()
        console.print(title, style="bold")
        print_padded(console, grid)


@contextmanager
def _database_faults_refused() -> Iterator[None]:
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        if text := not_migrated(error):
            raise Refused(text, code="not_migrated") from error
        if text := unusable(error):
            raise Refused(text, code="database_unusable") from error
        raise


def _check_texts(options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            raise CommandError(f"{name} is not valid UTF-8 text", returncode=EXIT_USAGE)


def _cell(value: object) -> str | Text:
    if value is None:
        return "-"
    return value if isinstance(value, Text) else printable(str(value))
