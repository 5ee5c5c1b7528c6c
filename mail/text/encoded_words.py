"""Header values to text: RFC 2047 encoded words and raw 8-bit bytes, also badly made ones."""

from __future__ import annotations

import base64
import quopri
import re
from typing import Final

from mail.text.charsets import decode_bytes
from mail.text.cleaning import clean_line

_ENCODED_WORD: Final = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_NOT_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/]")
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


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
