"""Puts mail from files into a mailbox of the local Gmail, and has it read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from email.policy import compat32
from itertools import groupby
from pathlib import Path

from mail.conf import gmail_simulator_store
from mail.gmail.connect import local_gmail
from mail.models import MailAccount
from mail.services.accounts import own_addresses
from mail.services.mail_files import FoundMessage, Unreadable, find_messages
from mail.services.queueing import request_backfill
from mail.text.addresses import parse_sender
from tenants.scope import firm_scope

RECEIVED = ("INBOX", "UNREAD")
SENT = ("SENT",)
MAX_HEADER_BYTES = 256 * 1024


@dataclass
class ImportReport:
    """What became of the messages found."""

    imported: int = 0
    already_there: int = 0
    unreadable: int = 0

    def count(self, *, created: bool) -> None:
        """Count one message that is in the mailbox now."""
        if created:
            self.imported += 1
        else:
            self.already_there += 1


def import_mail(
    account: MailAccount, path: Path, *, on_unreadable: Callable[[Unreadable], None]
) -> ImportReport:
    """Import every message under `path` once, and enqueue a backfill of the whole mailbox.

    What the mailbox's owner wrote goes to the sent mail, everything else to the inbox.
    """
    report = ImportReport()

    def readable() -> Iterator[FoundMessage]:
        for found in find_messages(path):
            if isinstance(found, FoundMessage):
                yield found
            else:
                report.unreadable += 1
                on_unreadable(found)

    gmail = local_gmail(gmail_simulator_store())
    owners = own_addresses(account)
    # In runs, since the labels hold for all messages of one import.
    for labels, run in groupby(readable(), key=lambda found: labels_for(found.raw, owners)):
        raws = (found.raw for found in run)
        for result in gmail.import_messages(account.address, raws, labels=labels):
            report.count(created=result.created)
    with firm_scope(account.firm_id):
        request_backfill(account)
    return report


def labels_for(raw: bytes, owners: frozenset[str]) -> tuple[str, ...]:
    """Return where a message belongs: sent mail when one of the owners wrote it, else inbox."""
    headers = BytesHeaderParser(policy=compat32).parsebytes(raw[:MAX_HEADER_BYTES])
    sender = parse_sender(tuple(str(value) for value in headers.get_all("From", [])))
    return SENT if sender.key in owners else RECEIVED
