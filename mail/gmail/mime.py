"""Writes the messages Mailroom sends; a value that could end a header is refused, never repaired."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email import policy
from email.header import Header
from email.message import EmailMessage
from typing import Final

import idna

from jobs.errors import Fault
from mail.errors import OutboundInvalid
from mail.text.parsed import Address

OUTBOUND_HEADER: Final = "X-Mailroom-Message"
"""Carries the id of the OutboundMessage; mail that carries it is never answered automatically."""

NAMELESS: Final = "attachment"
"""The name of an attachment that has none."""

MAX_ADDRESS_CHARS: Final = 320
MAX_HEADER_CHARS: Final = 10_000
# Beside the rest of the line, within the 998 characters that RFC 5322 allows.
MAX_LINE: Final = 450
# RFC 2047 allows 75 characters for an encoded word and 76 for its line, with the header's name.
MAX_ENCODED: Final = 66
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_ATOMS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_MESSAGE_ID: Final = re.compile(r"<[!-;=?-~]{1,250}>")
_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}")
_DOMAIN: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """An attachment with its bytes; `message/rfc822` is a whole message."""

    filename: str
    mime_type: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMail:
    """Everything a message is made of; `text` and `html` are two forms of the same body."""

    sender: Address
    to: tuple[Address, ...]
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    subject: str = ""
    text: str = ""
    html: str = ""
    message_id: str
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    automatic: bool = False
    outbound_id: str = ""
    files: tuple[OutgoingFile, ...] = ()


def faults_of(mail: OutgoingMail) -> list[Fault]:
    """Return what is wrong with the message, field by field; nothing when it can be written."""
    faults = [
        *_header_faults("subject", mail.subject),
        *_header_faults("outbound_id", mail.outbound_id),
        *address_faults("sender", [mail.sender]),
        *address_faults("to", mail.to),
        *address_faults("cc", mail.cc),
        *address_faults("bcc", mail.bcc),
        *_body_faults("text", mail.text),
        *_body_faults("html", mail.html),
        *_id_faults("message_id", [mail.message_id]),
        *_id_faults("in_reply_to", [mail.in_reply_to] if mail.in_reply_to else []),
        *_id_faults("references", mail.references),
    ]
    for file in mail.files:
        faults += _header_faults("attachments", file.filename)
        if not re.fullmatch(r"[\w.+-]{1,100}/[\w.+-]{1,100}", file.mime_type, re.ASCII):
            faults.append(Fault("attachments", "invalid", "Not a media type."))
    if not (mail.to or mail.cc or mail.bcc):
        faults.append(Fault("to", "required", "Name at least one recipient."))
    return faults


def build_mail(mail: OutgoingMail) -> bytes:
    """Return the message as RFC 5322 bytes.

    Raises:
        OutboundInvalid: a field cannot be written, above all one with a line break that would end
            its header.
    """
    faults = faults_of(mail)
    if faults:
        raise OutboundInvalid(faults)
    message = EmailMessage(policy=policy.SMTP)
    if mail.automatic:
        message["Auto-Submitted"] = "auto-replied"
        message["X-Auto-Response-Suppress"] = "All"
    if mail.outbound_id:
        message[OUTBOUND_HEADER] = mail.outbound_id
    _add_body(message, mail)
    for file in mail.files:
        _attach(message, file)
    # The library would encode ids that are longer than a line. Where it folds a display name, it may
    # lose the quotes, so that other recipients are written than those that somebody has approved.
    return "".join(f"{line}\r\n" for line in _head(mail)).encode("ascii") + message.as_bytes()


def address_faults(field: str, addresses: Iterable[Address]) -> list[Fault]:
    """Return what is wrong with the addresses of one header."""
    faults = []
    for address in addresses:
        faults += _header_faults(field, address.name)
        if not _is_address(address.address):
            shown = _CONTROL.sub("\ufffd", address.address)[:80]
            faults.append(Fault(field, "invalid", f"{shown!r} is not a mail address."))
    return faults


def _is_address(address: str) -> bool:
    local, _, domain = address.rpartition("@")
    if len(address) > MAX_ADDRESS_CHARS or not _LOCAL_PART.fullmatch(local):
        return False
    if local.startswith(".") or local.endswith(".") or ".." in local:
        return False
    try:
        return bool(_DOMAIN.fullmatch(_ascii_domain(domain)))
    except UnicodeError:
        return False


def in_ascii(address: str) -> str:
    """Return the address as it is written in a header; one that cannot be written stays as it is."""
    local, at, domain = address.rpartition("@")
    try:
        return f"{local}{at}{_ascii_domain(domain)}"
    except UnicodeError:
        return address


def _ascii_domain(domain: str) -> str:
    # Python's own codec follows an older standard, by which "straße.de" is the domain "strasse.de".
    return domain if domain.isascii() else idna.encode(domain, uts46=True).decode("ascii")


def _header_faults(field: str, value: str) -> list[Fault]:
    if _CONTROL.search(value):
        return [Fault(field, "control_character", "It holds a line break or control character.")]
    if len(value) > MAX_HEADER_CHARS:
        return [Fault(field, "too_long", f"At most {MAX_HEADER_CHARS} characters.")]
    return []


def _body_faults(field: str, value: str) -> list[Fault]:
    if re.search("[\x00\ud800-\udfff]", value):
        return [Fault(field, "control_character", "It holds NUL or half a character.")]
    return []


def _id_faults(field: str, ids: Iterable[str]) -> list[Fault]:
    if all(_MESSAGE_ID.fullmatch(one) for one in ids):
        return []
    return [Fault(field, "invalid", "Not a Message-ID.")]


def _head(mail: OutgoingMail) -> Iterator[str]:
    yield f"Message-ID: {mail.message_id}"
    if mail.in_reply_to:
        yield f"In-Reply-To: {mail.in_reply_to}"
    if mail.references:
        yield "References: " + "\r\n ".join(mail.references)
    people = (("From", (mail.sender,)), ("To", mail.to), ("Cc", mail.cc), ("Bcc", mail.bcc))
    for name, addresses in people:
        if addresses:
            yield f"{name}: " + ",\r\n ".join(_written(address) for address in addresses)
    yield f"Subject: {_words(mail.subject)}"


def _written(address: Address) -> str:
    mailbox = in_ascii(address.address)
    if not address.name:
        return mailbox
    name = _words(address.name)
    if name == address.name and not _ATOMS.fullmatch(name):
        name = '"{}"'.format(re.sub(r'(["\\])', r"\\\1", name))
    one_line = f"{name} <{mailbox}>"
    return one_line if len(one_line) <= MAX_ENCODED else f"{name}\r\n <{mailbox}>"


def _words(text: str) -> str:
    """Return the text as it is if one line can hold it, else as encoded words."""
    if text.isascii() and len(text) <= MAX_LINE and "=?" not in text and text == text.strip():
        return text
    return Header(text, "utf-8", maxlinelen=MAX_ENCODED).encode(linesep="\r\n")


def _add_body(message: EmailMessage, mail: OutgoingMail) -> None:
    message.set_content(mail.text, charset="utf-8")
    if mail.html:
        message.add_alternative(mail.html, subtype="html", charset="utf-8")


def _attach(message: EmailMessage, file: OutgoingFile) -> None:
    maintype, _, subtype = file.mime_type.partition("/")
    if maintype in ("message", "multipart"):
        # Attached as bytes without a type, because the library would parse and rewrite a message.
        maintype, subtype = "application", "octet-stream"
    message.add_attachment(
        file.content, maintype=maintype, subtype=subtype, filename=file.filename or NAMELESS
    )
