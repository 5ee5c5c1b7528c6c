"""Composes replies and forwarded messages from stored ones: their content and recipients."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import nh3

from mail.models import MailAccount, Message, OutboundKind
from mail.text.addresses import parse_addresses
from mail.text.cleaning import clean_line
from mail.text.headers import parse_message_ids
from mail.text.html_depth import buildable
from mail.text.html_text import html_to_text
from mail.text.parsed import Address, Headers, from_stored

MAX_SUBJECT_CHARS: Final = 500
MAX_FILENAME_CHARS: Final = 150
# The part id of the message's own body: Gmail's is empty, which here means the whole message.
ROOT_PART: Final = "root"
WHOLE_MESSAGE: Final = "message/rfc822"
# Gmail shortens the header, too; the first id is kept, because it names the thread's beginning.
_MOST_REFERENCES: Final = 20
_REPLY_PREFIX: Final = re.compile(r"re\s*:", re.IGNORECASE)
_FORWARD_PREFIX: Final = re.compile(r"fwd?\s*:", re.IGNORECASE)
_WRITTEN_ID: Final = re.compile(r"<[!-;=?-~]{1,250}>")

IncludeOriginal = Literal["inline", "attachment"]
Addresses = str | Address | Iterable[str | Address]


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a message says, before sender and signature are added."""

    kind: OutboundKind
    to: tuple[Address, ...]
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    subject: str = ""
    text: str = ""
    html: str = ""
    attachments: tuple[dict[str, str], ...] = ()
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    gmail_thread_id: str = ""
    message: Message | None = None


def read_addresses(given: Addresses) -> tuple[Address, ...]:
    """Return the addresses of one header; texts stay as they are, so that checks see faults."""
    if isinstance(given, Address):
        return (given,)
    if isinstance(given, str):
        return parse_addresses((given,)) if _is_plain(given) else (Address("", given),)
    return tuple(address for one in given for address in read_addresses(one))


def _is_plain(text: str) -> bool:
    # The parser is lenient: a text that could end a header must reach the checks unparsed.
    return not re.search(r"[\x00-\x08\x0a-\x1f\x7f\u2028\u2029]", text) and "@" in text


def reply_content(message: Message, *, text: str, html_text: str = "") -> Content:
    """Return the answer to a message: to its Reply-To, else its sender; in its thread."""
    headers = stored_headers(message)
    known = [*parse_message_ids(headers.get("References")), message.message_id]
    references = [one for one in dict.fromkeys(known) if _WRITTEN_ID.fullmatch(one)]
    return Content(
        kind=OutboundKind.REPLY,
        to=answered_addresses(message),
        subject=_prefixed("Re: ", _REPLY_PREFIX, message.subject),
        text=text,
        html=html_text,
        in_reply_to=message.message_id if message.message_id in references else "",
        references=tuple(references[:1] + references[1:][-_MOST_REFERENCES:]),
        gmail_thread_id=message.thread.gmail_thread_id,
        message=message,
    )


def answered_addresses(message: Message) -> tuple[Address, ...]:
    """Return the addresses that the message asks to answer: its Reply-To, else its sender."""
    answered = parse_addresses(stored_headers(message).get_all("Reply-To"))
    return answered or (Address(message.sender_name, message.sender_address),)


def forward_content(
    message: Message,
    *,
    to: Addresses,
    cc: Addresses = (),
    bcc: Addresses = (),
    note: str = "",
    subject: str = "",
    include_original: IncludeOriginal = "inline",
) -> Content:
    """Return a message that passes another on: quoted with its attachments, or attached whole."""
    inline = include_original == "inline"
    return Content(
        kind=OutboundKind.FORWARD,
        to=read_addresses(to),
        cc=read_addresses(cc),
        bcc=read_addresses(bcc),
        subject=subject or _prefixed("Fwd: ", _FORWARD_PREFIX, message.subject),
        text=_forwarded_text(message, note) if inline else note,
        html=_forwarded_html(message, note) if inline and message.html else "",
        attachments=_attachments(message) if inline else (_whole(message),),
        message=message,
    )


def sender_of(account: MailAccount, message: Message | None) -> tuple[Address, str]:
    """Return the address from which the mailbox writes, and its signature in HTML.

    It is the owner's address to which the message came, if there is one, else the default address.
    """
    identities = account.identities or [
        {"address": account.address, "name": account.display_name, "signature": ""}
    ]
    reached = set() if message is None else {a["address"].lower() for a in message.to + message.cc}
    chosen = next((one for one in identities if one["address"] in reached), identities[0])
    name = clean_line(chosen["name"] or account.display_name, MAX_SUBJECT_CHARS)
    return Address(name, chosen["address"]), chosen["signature"]


def signed(text: str, html_text: str, signature: str) -> tuple[str, str]:
    """Return both forms of a body with the signature below."""
    if not signature:
        return text, html_text
    below = html_to_text(signature).shown.strip()
    html_text = html_text and f"{html_text}<br>-- <br>{signature}"
    return f"{text.rstrip()}\n\n-- \n{below}", html_text


def stored_headers(message: Message) -> Headers:
    """Return a stored message's headers."""
    return Headers(tuple((name, value) for name, value in message.headers))


def _prefixed(prefix: str, known: re.Pattern[str], subject: str) -> str:
    subject = clean_line(subject, MAX_SUBJECT_CHARS)
    return subject if known.match(subject) else f"{prefix}{subject}".strip()


def _forwarded_text(message: Message, note: str) -> str:
    lines = [f"{name}: {value}" for name, value in _outline(message)]
    head = "\n".join(["---------- Forwarded message ---------", *lines])
    return "\n\n".join(part for part in (note, head, message.text) if part)


def _forwarded_html(message: Message, note: str) -> str:
    lines = [f"{name}: {html.escape(value)}" for name, value in _outline(message)]
    head = "<br>".join(["---------- Forwarded message ---------", *lines])
    above = f"<div>{html.escape(note)}</div><br>" if note else ""
    return f"{above}<div>{head}</div><br>{nh3.clean(buildable(message.html))}"


def _outline(message: Message) -> list[tuple[str, str]]:
    sender = Address(message.sender_name, message.sender_address)
    return [
        ("From", _written(sender)),
        ("Date", f"{message.internal_date:%Y-%m-%d %H:%M} UTC"),
        ("Subject", message.subject),
        ("To", ", ".join(_written(one) for one in from_stored(message.to))),
    ]


def _written(address: Address) -> str:
    return f"{address.name} <{address.address}>" if address.name else address.address


def _attachments(message: Message) -> tuple[dict[str, str], ...]:
    rows = list(message.attachments.order_by("part_id"))
    # An attached message is sent whole, so the attachments in it are left out of the list.
    whole = [row for row in rows if row.mime_type == WHOLE_MESSAGE and row.size]
    return tuple(
        {
            "message_id": str(message.pk),
            "part_id": row.part_id or ROOT_PART,
            "filename": clean_line(row.filename, MAX_FILENAME_CHARS),
            "mime_type": _media_type(row.mime_type),
            "size": str(row.size),
        }
        for row in rows
        if not any(_is_below(row.part_id, one.part_id) for one in whole)
    )


def _is_below(part_id: str, other_id: str) -> bool:
    """Say, by Gmail's ids of two parts, whether the first lies in the second, as "1.0" in "1"."""
    return part_id.startswith(f"{other_id}.") if other_id else part_id != ""


def _whole(message: Message) -> dict[str, str]:
    # Slashes are replaced, because programs drop what stands before one, as if it were a folder.
    name = re.sub(r"[/\\]", "-", clean_line(message.subject, MAX_FILENAME_CHARS)) or "message"
    return {
        "message_id": str(message.pk),
        "part_id": "",
        "filename": f"{name}.eml",
        "mime_type": WHOLE_MESSAGE,
        "size": str(message.size),
    }


def _media_type(mime_type: str) -> str:
    fits = re.fullmatch(r"[\w.+-]{1,100}/[\w.+-]{1,100}", mime_type, re.ASCII)
    return mime_type if fits else "application/octet-stream"
