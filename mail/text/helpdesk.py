"""Who really wrote a message that a helpdesk or a contact form forwarded, and what they said.

Everything here is the sender's word: it is data for an agent, and proves nothing about anybody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mail.text.addresses import parse_addresses
from mail.text.cleaning import clean_line
from mail.text.parsed import Address, Headers

MAX_TEXT: Final = 50_000
MAX_LINE: Final = 500
_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_SEPARATOR: Final = re.compile(r"^[ \t>]*(?:-{3,}|={3,}|_{3,}|—{2,})[ \t]*$", re.MULTILINE)
_CRISP_NAME: Final = re.compile(
    r"^[ \t]*(?:From|Od|Name|Jméno|Nová zpráva od|New message from)[ \t]*:[ \t]*(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_NAME: Final = re.compile(
    r"^[ \t]*(?:From|Name|Full name|Your name|Customer|Requester|Od|Jméno|Zákazník|Von|Kunde|Nom|Nombre)"
    r"[ \t]*:[ \t]*(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_CONTACT: Final = re.compile(
    r"^[ \t]*(?:E-?mail|E-?mail address|Reply to|Adresse e-mail|Correo)[ \t]*:[ \t]*(.+)$",
    re.IGNORECASE | re.MULTILINE,
)
_MESSAGE: Final = re.compile(
    r"^[ \t]*(?:Message|Your message|Question|Comment|Description|Zpráva|Dotaz|Nachricht|Mensaje)"
    r"[ \t]*:[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_METADATA: Final = re.compile(r"^[ \t]*[^\W\d_][\w \-]{0,30}[ \t]*:[ \t]*\S.{0,200}$")


@dataclass(frozen=True)
class Inquiry:
    """What an agent is given to read."""

    name: str
    address: str
    subject: str
    text: str


def plain_inquiry(sender: Address, subject: str, text: str) -> Inquiry:
    """Return the message unchanged, as an inquiry."""
    return Inquiry(
        clean_line(sender.name, MAX_LINE),
        sender.key,
        clean_line(subject, MAX_LINE),
        text[:MAX_TEXT].strip(),
    )


def crisp_inquiry(sender: Address, subject: str, text: str, headers: Headers) -> Inquiry:
    """Return what a visitor wrote in Crisp: the text after the first separator or the metadata.

    A message that does not look like Crisp's is read as it is.
    """
    text = text[:MAX_TEXT]
    name, address = _first(_CRISP_NAME, text), _written_by(sender, text, headers)
    if not name and not address:
        return plain_inquiry(sender, subject, text)
    found = _SEPARATOR.search(text)
    said = text[found.end() :] if found else _without_metadata(text)
    return _forwarded(sender, subject, name, address, said, text)


def helpdesk_inquiry(sender: Address, subject: str, text: str, headers: Headers) -> Inquiry:
    """Return what somebody wrote into a form or to a helpdesk: lines such as `Name:`, `Message:`.

    A message without such lines is read as it is.
    """
    text = text[:MAX_TEXT]
    named, contact = _first(_NAME, text), _ADDRESS.search(_first(_CONTACT, text))
    address = contact.group().lower() if contact else _written_by(sender, text, headers)
    message, separator = _MESSAGE.search(text), _SEPARATOR.search(text)
    if not address or not (named or message or separator):
        return plain_inquiry(sender, subject, text)
    if message is not None:
        said = text[message.end() :]
    else:
        said = text[separator.end() :] if separator else _without_metadata(text)
    return _forwarded(sender, subject, named, address, said, text)


def _forwarded(
    sender: Address, subject: str, name: str, address: str, said: str, whole: str
) -> Inquiry:
    name = _ADDRESS.sub("", name).strip(" \t<>()\"'")
    return Inquiry(
        clean_line(name, MAX_LINE),
        address or sender.key,
        clean_line(subject, MAX_LINE),
        said.strip() or whole.strip(),
    )


def _written_by(forwarder: Address, text: str, headers: Headers) -> str:
    """Return the first address of Reply-To or of the text that is not the forwarder's."""
    replies = [one.key for one in parse_addresses(headers.get_all("Reply-To"))]
    written = [found.group().lower().rstrip(".") for found in _ADDRESS.finditer(text)]
    return next((one for one in (*replies, *written) if one != forwarder.key), "")


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1).strip() if found else ""


def _without_metadata(text: str) -> str:
    lines = text.splitlines()
    while lines and (not lines[0].strip() or _METADATA.match(lines[0])):
        del lines[0]
    return "\n".join(lines)
