"""`manage.py firm_import PATH`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, NotFound, Refused, nonempty_path
from mail.errors import FaultyInput, WrongState
from mail.services.exports.read import import_firm
from tenants.cli import operator


class Command(JsonCommand):
    """Creates a firm from the zip of a `firm_export`."""

    help = "Import a firm from an export's zip; it stays inactive until it is activated."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the zip, and the firm's slug."""
        parser.add_argument("path", type=nonempty_path, help="the zip")
        parser.add_argument(
            "--slug", default="", help="another slug for the firm than the export's"
        )

    def handle(self, *_: Any, path: Path, slug: str, json: bool, **__: Any) -> None:
        """Import the zip, and print the number of rows.

        Raises:
            NotFound: there is no such file.
            Refused: the file is no export, or the firm is in this database already.
        """
        if not path.is_file():
            raise NotFound(f"{path} is no file")
        try:
            made = import_firm(path, by=operator(), slug=slug)
        except FaultyInput as error:
            raise Refused(str(error), code=error.code, errors=error.errors) from error
        except WrongState as error:
            raise Refused(str(error), code=error.code) from error
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from error
        firm = made.firm
        if json:
            self.emit({"firm": firm.slug, "rows": made.rows, "left_out": made.left_out})
            return
        self.stdout.write(
            f"{firm} ({firm.slug}): {made.rows:,} rows. Connect its mailboxes, then activate it."
        )
        if made.left_out:
            self.stdout.write(
                f"{made.left_out:,} rows were left out: what they belong to was made or "
                "deleted during the export."
            )
