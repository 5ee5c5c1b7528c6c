"""Structured header fields other than addresses: dates, message ids and parameters."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final

from mail.text.charsets import decode_bytes
from mail.text.cleaning import clean_line
from mail.text.encoded_words import decode_header, recover_bytes

_FIELD_CHARS: Final = 16_384
_DATE_CHARS: Final = 200
_MESSAGE_ID_CHARS: Final = 998
_MAX_REFERENCES: Final = 100
_MESSAGE_ID: Final = re.compile(r"<([^<>\s]+)>")


def parse_date(value: str | None) -> datetime | None:
    """Return a Date header in UTC; a date without a zone counts as UTC."""
    if not value:
        return None
    try:
        date = parsedate_to_datetime(value[:_DATE_CHARS])
        return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def parse_message_ids(value: str | None) -> tuple[str, ...]:
    """Return the message ids of a header in order, each once, with angle brackets."""
    if not value:
        return ()
    text = clean_line(value, _FIELD_CHARS)
    # Some mailers leave the brackets out.
    names = _MESSAGE_ID.findall(text) or [word for word in text.split() if "@" in word]
    ids = dict.fromkeys(f"<{name[: _MESSAGE_ID_CHARS - 2]}>" for name in names)
    return tuple(ids)[-_MAX_REFERENCES:]


def parameter(value: str | None, name: str) -> str:
    """Return one parameter of a Content-Type or Content-Disposition value, decoded, else "".

    RFC 2231 continuations and charsets are understood; so are encoded words, which do not belong
    there but are common.
    """
    if not value:
        return ""
    field = Message()
    try:
        field["Content-Type"] = " ".join(recover_bytes(value[:_FIELD_CHARS]).split())
        found = field.get_param(name)
    except (ValueError, TypeError, IndexError):
        # The standard library raises for continuations that are numbered in contradictory ways.
        return ""
    if isinstance(found, tuple):
        charset, _, octets = found
        return clean_line(decode_bytes(octets.encode("latin-1", "replace"), charset), _FIELD_CHARS)
    return decode_header(str(found), _FIELD_CHARS) if found is not None else ""
