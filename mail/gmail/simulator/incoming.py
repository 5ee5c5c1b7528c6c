"""The ways mail enters a mailbox: messages.send, import and insert, and seeding from files."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, getaddresses
from itertools import islice

from mail.gmail.simulator.answer import invalid_argument
from mail.gmail.simulator.call import Call, Handler, Json, decode_base64url
from mail.gmail.simulator.ids import message_id, message_pk
from mail.gmail.simulator.labels import require_known
from mail.gmail.simulator.letter import Letter, read_letter
from mail.gmail.simulator.mailbox import Mailbox, StoredMessage
from mail.gmail.simulator.messages import reference
from mail.gmail.simulator.mime import Part, parse
from mail.gmail.simulator.send_as import own_aliases
from mail.gmail.simulator.store import Store

_CHUNK = 200
NEW_MAIL = ("INBOX", "UNREAD")


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What became of one imported message."""

    gmail_message_id: str
    created: bool
    """False when the mailbox already held these very bytes."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An incoming message, parsed outside the transaction that stores it."""

    raw: bytes
    letter: Letter
    digest: bytes


def prepare(raw: bytes) -> Prepared:
    """Return the message ready to be stored; never raises, whatever the bytes are."""
    return Prepared(raw, read_letter(parse(raw)), hashlib.sha256(raw).digest())


def import_messages(
    store: Store, address: str, raws: Iterable[bytes], *, labels: Collection[str] = NEW_MAIL
) -> Iterator[ImportResult]:
    """Import any number of messages, lazily and in order, 200 to a transaction."""
    remaining = iter(raws)
    while chunk := list(islice(remaining, _CHUNK)):
        prepared = [prepare(raw) for raw in chunk]
        with store.write() as connection:
            mailbox = Mailbox.ensure(connection, address)
            require_known(mailbox, labels)
            results = [store_once(mailbox, message, labels) for message in prepared]
        yield from results


def store_once(
    mailbox: Mailbox,
    message: Prepared,
    labels: Collection[str],
    internal_date: datetime | None = None,
) -> ImportResult:
    """Store a message unless the same bytes were imported before."""
    known = mailbox.connection.execute(
        "SELECT pk FROM message WHERE mailbox = ? AND import_digest = ?",
        (mailbox.pk, message.digest),
    ).fetchone()
    if known:
        return ImportResult(message_id(known["pk"]), created=False)
    stored = mailbox.add_message(
        message.raw,
        message.letter,
        labels,
        internal_date=internal_date or message.letter.sent_at,
        thread=mailbox.find_thread(message.letter),
        import_digest=message.digest,
    )
    return ImportResult(message_id(stored.pk), created=True)


def raw_of(body: Json, field: str) -> bytes:
    """Return the message inside a request body.

    Raises:
        ApiError: 400, it is missing, empty or no base64.
    """
    raw = decode_base64url(body.get("raw", ""), field)
    if not raw:
        raise invalid_argument(f"'{field}' RFC822 payload message string is required")
    return raw


def add_composed(
    mailbox: Mailbox,
    body: Json,
    raw: bytes,
    label_ids: Collection[str],
    *,
    internal_date: datetime | None = None,
    stay_in: int | None = None,
) -> StoredMessage:
    """Store a message that a client wrote, in the requested thread if it may join that.

    A threadId alone does not suffice: the message must also refer to one of the thread's messages
    and bear its subject, or it starts a thread of its own. ``stay_in`` is the thread of the draft
    that the message replaces; it stays there unless the body asks for another thread.

    Raises:
        ApiError: 404, there is no thread of the given id.
    """
    letter = read_letter(parse(raw))
    wanted = body.get("threadId")
    if wanted:
        mailbox.thread_messages(wanted)
    thread = mailbox.find_thread(letter, within=message_pk(wanted) if wanted else None)
    return mailbox.add_message(
        raw,
        letter,
        label_ids,
        internal_date=internal_date,
        thread=thread if wanted else stay_in or thread,
    )


def send(mailbox: Mailbox, body: Json, raw: bytes, *, stay_in: int | None = None) -> StoredMessage:
    """Put an outgoing message into the sent mail, with the headers Gmail adds where missing.

    ``body`` and ``stay_in`` as for add_composed.

    Raises:
        ApiError: 400, nobody is addressed; 404, there is no thread of the given id.
    """
    root = parse(raw)
    if not any(root.header(name) for name in ("To", "Cc", "Bcc")):
        raise invalid_argument("Recipient address required")
    added = {
        "Message-ID": f"<{secrets.token_hex(12)}@mail.gmail.com>",
        "Date": format_datetime(datetime.now(UTC)),
        "From": mailbox.address,
    }
    lines = "".join(
        f"{name}: {value}\r\n" for name, value in added.items() if not root.header(name)
    )
    labels = ["SENT", *NEW_MAIL] if _is_to_oneself(mailbox, root) else ["SENT"]
    return add_composed(mailbox, body, lines.encode() + raw, labels, stay_in=stay_in)


def _is_to_oneself(mailbox: Mailbox, root: Part) -> bool:
    """Say whether the owner is a recipient; the one message is then both sent and received."""
    own = {mailbox.address, *own_aliases(mailbox)}
    fields = [value for name in ("To", "Cc", "Bcc") for value in root.all_headers(name)]
    return any(address.lower() in own for _, address in getaddresses(fields))


def _send(mailbox: Mailbox, call: Call) -> Json:
    return reference(send(mailbox, call.body, raw_of(call.body, "raw")))


def _import(mailbox: Mailbox, call: Call) -> Json:
    return _add(mailbox, call, date_source=call.query.get("internalDateSource", "dateHeader"))


def _insert(mailbox: Mailbox, call: Call) -> Json:
    return _add(mailbox, call, date_source=call.query.get("internalDateSource", "receivedTime"))


def _add(mailbox: Mailbox, call: Call, *, date_source: str) -> Json:
    raw = raw_of(call.body, "raw")
    labels = call.body.get("labelIds", [])
    require_known(mailbox, labels)
    sent_at = read_letter(parse(raw)).sent_at if date_source == "dateHeader" else None
    return reference(add_composed(mailbox, call.body, raw, labels, internal_date=sent_at))


READERS: dict[str, Handler] = {}
WRITERS: dict[str, Handler] = {
    "messages.send": _send,
    "messages.import": _import,
    "messages.insert": _insert,
}
