"""Bytes to text, for mail whose charset is unknown, wrong or missing."""

from __future__ import annotations

import codecs
import re
from typing import Final

from mail.text.charset_guess import EAST_ASIAN_CODECS, guess_codec

_UNKNOWN_LABELS: Final = {
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-8-e": "iso-8859-8",
    "x-sjis": "cp932",
    "x-gbk": "gb18030",
    "x-mac-ce": "mac-latin2",
    "x-mac-roman": "mac-roman",
    "x-user-defined": "cp1252",
    "unicode": "utf-16",
    "unicode-1-1-utf-7": "utf-7",
    "utf8mb4": "utf-8",
    "ansi_x3.4-1968": "utf-8",
}
"""Labels seen in mail that Python does not know."""

_SUPERSETS: Final = {
    "ascii": "utf-8",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
}
"""Codecs by Python's names, with the superset that mailers really send."""

_LATIN_CODECS: Final = frozenset(
    {
        *("cp1250", "cp1252", "cp1254", "cp1257"),
        *(f"iso8859-{part}" for part in (2, 3, 4, 10, 13, 14, 15, 16)),
    }
)
"""Codecs in which a letter of UTF-8 looks like a capital with a sign after it."""

_NOT_CHARSETS: Final = frozenset(
    {"idna", "punycode", "mbcs", "oem", "unicode-escape", "raw-unicode-escape"}
)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LABEL: Final = re.compile(r"[\w.:+-]{1,40}", re.ASCII)
_META_CHARSET: Final = re.compile(
    rb"""charset\s{0,8}=\s{0,8}["']?([\w.:+-]{1,40})""", re.IGNORECASE
)
_HEAD_BYTES: Final = 2048
_CHANCE_UTF_8: Final = EAST_ASIAN_CODECS | {"cp874"}
"""Codecs whose text may in part be valid UTF-8 by chance."""
_REPLACED: Final = "\ufffd"
_LONG_SPEAKS: Final = 4
"""How many damaged letters a valid letter of three bytes outweighs in addition."""
_NO_CHANCE: Final = 3
"""How many bytes more than letters valid UTF-8 has that is none by chance."""
_LATIN_END, _TWO_BYTES_END = "\u017f", "\u07ff"


def codec_for(label: str | None) -> str | None:
    """Return the codec a charset label means, or None when there is no such charset."""
    match = _LABEL.search(label or "")
    if match is None:
        return None
    name = match.group().lower()
    try:
        codec = codecs.lookup(_UNKNOWN_LABELS.get(name, name)).name
        b"a".decode(codec, "ignore")
    except (LookupError, UnicodeError):
        # Codecs such as zlib or hex are found by lookup and refused by decode.
        return None
    return None if codec in _NOT_CHARSETS else _SUPERSETS.get(codec, codec)


def html_charset(data: bytes) -> str | None:
    """Return the charset an HTML document declares in its own head, if any."""
    match = _META_CHARSET.search(data[:_HEAD_BYTES])
    return match.group(1).decode("ascii") if match else None


def decode_bytes(data: bytes, label: str | None = None) -> str:
    """Return ``data`` as text; the label is used only if the bytes agree with it.

    A byte order mark wins, then the label, then UTF-8, then a guess from the bytes. Never raises;
    what cannot be decoded becomes U+FFFD.
    """
    for mark, codec in _BOMS:
        if data.startswith(mark):
            return data.decode(codec, "replace")
    declared = codec_for(label)
    if declared is not None and not _plausible(declared, data):
        declared = None
    for candidate in (declared, "utf-8"):
        text = _decode_strictly(data, candidate)
        if text is not None:
            return text
    # A label other than UTF-8 was chosen by somebody; bytes it cannot hold are damage.
    if declared not in {None, "utf-8"}:
        return data.decode(declared, "replace")
    guess = guess_codec(data)
    damaged = _damaged_utf_8(data, several_bytes=guess in _CHANCE_UTF_8)
    return data.decode(guess, "replace") if damaged is None else damaged


def decode_body(data: bytes, label: str | None) -> str:
    """Return a body as text: like `decode_bytes`, but UTF-8 that is none by chance wins over the label.

    Gmail's API gives bodies in UTF-8 and leaves the sender's label as it is, and some programs
    label their UTF-8 wrongly. Header fields are as they were sent, and often too short to tell.
    """
    declared = codec_for(label)
    if declared is None or data.isascii() or declared.startswith(("utf-16", "utf-32")):
        return decode_bytes(data, label)
    text = _decode_strictly(data, "utf-8")
    if text is None or not _is_utf_8_under(declared, data, text):
        return decode_bytes(data, label)
    return text.removeprefix("\ufeff")


def _is_utf_8_under(declared: str, data: bytes, text: str) -> bool:
    """Say whether bytes that are valid UTF-8 are so not by chance, under another label."""
    if len(data) - len(text) >= _NO_CHANCE:
        return True
    return declared in _LATIN_CODECS and not any(_LATIN_END < one <= _TWO_BYTES_END for one in text)


def _damaged_utf_8(data: bytes, *, several_bytes: bool) -> str | None:
    """Return the text if the bytes are UTF-8 with some damage.

    In other charsets, letters beyond ASCII are rarely valid UTF-8 by chance: nearly never with one
    byte per letter; sometimes with two bytes and in Thai (`several_bytes`), but nearly never three
    bytes in a row.
    """
    text = data.decode("utf-8", "replace")
    # Replacement characters that the sender wrote in UTF-8 are not damage.
    damaged = text.count(_REPLACED) - data.count(_REPLACED.encode())
    valid = sum(char > "\x7f" for char in text) - damaged
    long = sum(char > "\u07ff" and char != _REPLACED for char in text)
    speaks_for_it = valid * (1 if several_bytes else 2) + _LONG_SPEAKS * long
    return text if _plausible("utf-8", data) and speaks_for_it >= damaged else None


def _plausible(codec: str, data: bytes) -> bool:
    """Tell whether the bytes can be of this codec, where decoding alone would not show it.

    UTF-16 and UTF-32 turn any bytes into letters, so they must show the NULs of real text, and
    ISO-2022-JP in disguise passes for ASCII.
    """
    if codec.startswith(("utf-16", "utf-32")):
        return b"\0" in data
    return codec != "utf-8" or b"\x1b$" not in data


def _decode_strictly(data: bytes, codec: str | None) -> str | None:
    if codec is None or not _plausible(codec, data):
        return None
    try:
        return data.decode(codec)
    except ValueError:
        return None
