"""Header fields other than addresses: encoded words, dates, message ids and parameters."""

from __future__ import annotations

import base64
import quopri
import re
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final

from mail.text.charsets import decode_bytes
from mail.text.cleaning import clean_line

_FIELD_CHARS: Final = 16_384
_DATE_CHARS: Final = 200
_MESSAGE_ID_CHARS: Final = 998
_MAX_REFERENCES: Final = 100
_MESSAGE_ID: Final = re.compile(r"<([^<>\s]+)>")
_ENCODED_WORD: Final = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_NOT_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/]")
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


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


def decode_base64(data: str | bytes) -> bytes:
    """Return the bytes of base64 in either alphabet, forgiving padding, line ends and damage."""
    raw = data.encode("ascii", "ignore") if isinstance(data, str) else data
    digits = _NOT_BASE64.sub(b"", raw.translate(_URL_SAFE))
    # One digit left over holds six bits, which is no byte.
    digits = digits[: len(digits) - (len(digits) % 4 == 1)]
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def decode_header(value: str, limit: int) -> str:
    """Return a header value as one line of text of at most ``limit`` characters.

    Adjacent encoded words with the same charset are decoded together, because mailers cut letters
    in two; white space between encoded words does not count (RFC 2047, section 6.2).
    """
    value = recover_bytes(value[: 8 * limit])
    pieces: list[str] = []
    run = b""
    run_charset = ""
    end = 0
    for match in _ENCODED_WORD.finditer(value):
        between = value[end : match.start()]
        charset = match.group(1).partition("*")[0].lower()
        if between.strip() or charset != run_charset:
            pieces.append(decode_bytes(run, run_charset))
            run = b""
        if between.strip() or not end:
            pieces.append(between)
        run += _payload(match.group(2), match.group(3))
        run_charset = charset
        end = match.end()
    pieces += (decode_bytes(run, run_charset), value[end:])
    return clean_line("".join(pieces), limit)


def recover_bytes(value: str) -> str:
    """Return a header value with the raw 8-bit bytes that came in as surrogates decoded."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        try:
            return decode_bytes(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            return value
    return value


def _payload(encoding: str, text: str) -> bytes:
    if encoding in "bB":
        return decode_base64(text)
    return quopri.decodestring(text.encode("utf-8", "replace"), header=True)
