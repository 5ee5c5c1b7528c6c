"""Puts mail from files into a mailbox of the local Gmail, and has it ingested."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import compat32
from itertools import groupby, islice
from pathlib import Path
from typing import Final, NamedTuple

from mail.conf import gmail_simulator_store
from mail.errors import ActionInvalid
from mail.gmail.connect import local_gmail
from mail.gmail.errors import GmailError
from mail.models import MailAccount
from mail.services.importing.mail_files import FoundMessage, Unreadable, find_messages
from mail.services.mailboxes.accounts import own_addresses
from mail.services.mailboxes.credentials import gmail_of
from mail.services.queueing import request_backfill
from mail.services.syncing.labels import ensure_label
from mail.text.addresses import parse_addresses, parse_sender
from mail.text.authentication import HEADER, is_forged
from mail.text.headers import decode_header
from mail.text.parsed import Headers
from tenants.scope import firm_scope

RECEIVED = ("INBOX", "UNREAD")
SENT = ("SENT",)
MAX_HEADER_BYTES = 256 * 1024
# How many messages are read to guess the mailbox's address.
GUESSED_FROM = 1000
_HEADER_CHARS: Final = 4_000
_LABEL_CHARS: Final = 225
_SYSTEM: Final = {
    "inbox": "INBOX",
    "unread": "UNREAD",
    "sent": "SENT",
    "starred": "STARRED",
    "important": "IMPORTANT",
    "spam": "SPAM",
    "trash": "TRASH",
    **{
        f"category {name}": f"CATEGORY_{name.upper()}"
        for name in ("personal", "social", "promotions", "updates", "forums")
    },
}
# Names that say no more than other labels, or that an import cannot restore.
_LEFT_OUT: Final = frozenset({"opened", "archived", "chat", "draft", "drafts"})


@dataclass
class ImportReport:
    """How many of the messages found were imported."""

    imported: int = 0
    already_there: int = 0
    unreadable: int = 0

    def count(self, *, created: bool) -> None:
        """Count one message that the mailbox has now."""
        if created:
            self.imported += 1
        else:
            self.already_there += 1


def import_mail(
    account: MailAccount, path: Path, *, on_unreadable: Callable[[Unreadable], None]
) -> ImportReport:
    """Import every message under `path` once, and enqueue a backfill of the whole mailbox.

    Mail from Google Takeout keeps its labels. Other mail goes to the sent mail if the mailbox's
    owner wrote it, otherwise to the inbox.
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
    # In runs with the same labels, because one import gives all its messages the same.
    label_ids = _LabelIds(account)
    for labels, run in groupby(
        readable(), key=lambda found: labels_for(found.raw, owners, label_ids)
    ):
        raws = (found.raw for found in run)
        for result in gmail.import_messages(account.address, raws, labels=labels):
            report.count(created=result.created)
    with firm_scope(account.firm_id):
        request_backfill(account)
    return report


def labels_for(
    raw: bytes,
    owners: frozenset[str],
    label_id_of: Callable[[str], str | None] = lambda _: None,
) -> tuple[str, ...]:
    """Return the label ids for a message: Takeout's labels, else by who wrote the message.

    Takeout names Gmail's own labels in its owner's language; unless that is English, the message's
    writer decides, too. `label_id_of` returns a label's id by name; None if the mailbox cannot have
    it.
    """
    headers = _headers(raw)
    takeout = takeout_labels(headers)
    named = tuple(filter(None, map(label_id_of, takeout.names))) if takeout is not None else ()
    if takeout is not None and takeout.tells_place:
        return (*takeout.system, *named)
    sender = parse_sender(_values(headers, "From"))
    said = Headers(tuple((HEADER, value) for value in _values(headers, HEADER)))
    own = sender.key in owners and not is_forged(said, sender)
    return (*(SENT if own else RECEIVED), *named)


def guess_address(path: Path) -> str | None:
    """Return the address whose mail this most likely is; None if no message tells."""
    votes: Counter[str] = Counter()
    messages = (found for found in find_messages(path) if isinstance(found, FoundMessage))
    for found in islice(messages, GUESSED_FROM):
        headers = _headers(found.raw)
        takeout = takeout_labels(headers)
        is_sent = takeout is not None and "SENT" in takeout.system
        # The writer of sent mail, and the address that mail was delivered to, are the owner's;
        # addresses in To and Cc may be others', too.
        fields = (("From", 5),) if is_sent else (("Delivered-To", 5), ("To", 1), ("Cc", 1))
        for name, weight in fields:
            for address in {one.key for one in parse_addresses(_values(headers, name))}:
                votes[address] += weight
    return max(votes, key=lambda address: (votes[address], address)) if votes else None


class _LabelIds:
    """Finds label ids by name in one mailbox, and creates missing labels."""

    def __init__(self, account: MailAccount) -> None:
        self._account = account
        self._known: dict[str, str | None] = {}

    def __call__(self, name: str) -> str | None:
        if name not in self._known:
            self._known[name] = None
            with suppress(ActionInvalid, GmailError):
                gmail = gmail_of(self._account)
                self._known[name] = ensure_label(self._account, gmail, name)
        return self._known[name]


def _headers(raw: bytes) -> Message:
    return BytesHeaderParser(policy=compat32).parsebytes(raw[:MAX_HEADER_BYTES])


def _values(headers: Message, name: str) -> tuple[str, ...]:
    return tuple(str(value) for value in headers.get_all(name, []))


class TakeoutLabels(NamedTuple):
    """The ids of Gmail's own labels, and the names of the person's."""

    system: tuple[str, ...]
    names: tuple[str, ...]
    tells_place: bool = True
    """Whether Gmail's own labels are in English; in another language they are among `names`."""


def takeout_labels(headers: Message) -> TakeoutLabels | None:
    """Return the labels that the message had; None if it is not from Takeout."""
    values: Sequence[object] = headers.get_all("X-Gmail-Labels", [])
    if not values:
        return None
    text = decode_header(" ".join(str(values[0]).split()), _HEADER_CHARS)
    found = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    known = [name for name in dict.fromkeys(found) if name and name.lower() not in _LEFT_OUT]
    own = {name.lower() for name in found} & (_SYSTEM.keys() | _LEFT_OUT)
    return TakeoutLabels(
        system=tuple(_SYSTEM[name.lower()] for name in known if name.lower() in _SYSTEM),
        names=tuple(name[:_LABEL_CHARS] for name in known if name.lower() not in _SYSTEM),
        tells_place=bool(own),
    )
