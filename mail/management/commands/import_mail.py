"""`manage.py import_mail PATH --account ADDRESS --firm SLUG`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from interfaces.commands import JsonCommand, NotFound, Refused, nonempty_path
from mail.conf import gmail_api_base, uses_google
from mail.errors import WrongState
from mail.services.importing.import_mail import import_mail
from mail.services.importing.mail_files import Unreadable
from mail.services.mailboxes.accounts import open_account
from tenants.errors import UnknownFirm
from tenants.models import Firm

NO_LOCAL_GMAIL = (
    "Mail can be imported into the local Gmail only, and GMAIL_BACKEND is google. Set "
    "GMAIL_BACKEND=simulator to import it."
)


class Command(JsonCommand):
    """Imports mail from files into a mailbox of the local Gmail."""

    help = "Import an mbox, a Maildir, a message or a folder of them into a local mailbox."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the files, the mailbox and its firm."""
        parser.add_argument(
            "path", type=nonempty_path, help="mbox file, Maildir, .eml file or folder"
        )
        parser.add_argument("--account", required=True, help="the mailbox's address")
        parser.add_argument("--firm", required=True, help="slug of the mailbox's firm")

    def handle(self, *_: Any, path: Path, account: str, firm: str, json: bool, **__: Any) -> None:
        """Import, and print how many messages were new, known and unreadable."""
        if uses_google() and not gmail_api_base():
            raise Refused(NO_LOCAL_GMAIL)
        if not path.exists():
            raise NotFound(f"{path} does not exist")
        try:
            mailbox = open_account(Firm.objects.get_by_slug(firm), account)
        except UnknownFirm as error:
            raise NotFound(f"{error}; make it with: manage.py create_firm") from error
        except WrongState as error:
            raise Refused(str(error), code=error.code) from error
        except ValueError as error:
            raise Refused(str(error)) from error
        report = import_mail(mailbox, path, on_unreadable=self._name_unreadable)
        if json:
            self.emit({"account": mailbox.address, "firm": firm, **asdict(report)})
        else:
            self.stdout.write(
                f"{mailbox.address}: {report.imported} imported, "
                f"{report.already_there} already there, {report.unreadable} unreadable."
            )

    def _name_unreadable(self, found: Unreadable) -> None:
        self.stderr.write(f"unreadable: {found.place}: {found.reason}")
