"""What one parsed message is: frozen values, free of NUL and lone surrogates, safe to store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class TextSource(StrEnum):
    """Where a message's readable text came from."""

    PLAIN = "plain"
    """Text parts only."""
    HTML = "html"
    """At least one HTML part was turned into text."""
    DETACHED = "detached"
    """There is a body, but only behind an attachment id: parse again with ``fetch``."""
    NONE = "none"
    """The message has no text and no HTML part."""


@dataclass(frozen=True, slots=True)
class Address:
    """A mailbox as written in a header; both fields are empty when the header is missing."""

    name: str
    address: str

    @property
    def key(self) -> str:
        """The address for comparisons: lower case."""
        return self.address.lower()


def as_stored(addresses: Iterable[Address]) -> list[dict[str, str]]:
    """Return addresses as a JSON column keeps them."""
    return [asdict(address) for address in addresses]


def from_stored(stored: Iterable[dict[str, Any]]) -> tuple[Address, ...]:
    """Return the addresses that a JSON column keeps."""
    return tuple(Address(**one) for one in stored)


@dataclass(frozen=True, slots=True)
class Headers:
    """Header fields in message order, decoded; names keep the sender's case."""

    pairs: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str | None:
        """Return the first value of the header, whatever its case, or None."""
        wanted = name.lower()
        return next((value for key, value in self.pairs if key.lower() == wanted), None)

    def get_all(self, name: str) -> tuple[str, ...]:
        """Return every value of the header in message order."""
        wanted = name.lower()
        return tuple(value for key, value in self.pairs if key.lower() == wanted)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True, slots=True)
class AttachmentMeta:
    """A part that is not body text; its content stays in Gmail.

    ``attachment_id`` is empty when Gmail sent the content inside the message resource.
    ``content_id`` has no angle brackets. ``size`` is in bytes.
    """

    part_id: str
    filename: str
    mime_type: str
    size: int
    attachment_id: str
    content_id: str
    inline: bool


@dataclass(frozen=True, slots=True)
class ParsedMail:
    """A message as Mailroom stores and judges it.

    ``date`` is in UTC, None when missing or unreadable. Message ids carry their angle brackets.
    ``hidden_text`` is text in the HTML that a reader does not see; it is never part of ``text``.
    ``calendar_method`` is the iTIP method (``REQUEST``, ``REPLY``, ``CANCEL`` …) of the first
    text/calendar part, empty without one. ``language`` is an ISO 639-1 guess or None.
    """

    subject: str
    sender: Address
    reply_to: tuple[Address, ...]
    to: tuple[Address, ...]
    cc: tuple[Address, ...]
    bcc: tuple[Address, ...]
    date: datetime | None
    message_id: str
    in_reply_to: str
    references: tuple[str, ...]
    headers: Headers
    text: str
    text_source: TextSource
    html: str | None = None
    hidden_text: str = ""
    attachments: tuple[AttachmentMeta, ...] = ()
    calendar_method: str = ""
    language: str | None = None
