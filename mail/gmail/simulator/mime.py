"""Parses raw RFC 822 bytes into a tree of parts; it accepts any bytes and never raises.

The part tree keeps the exact bytes of every leaf (transfer encoding removed, charset untouched),
attached messages included, which the standard parser's object model does not.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.header import decode_header
from email.message import Message
from email.utils import collapse_rfc2231_value

_MAX_DEPTH = 40
_MAX_PARTS = 1000
_HEADER_LINE = re.compile(rb"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
_ENCODED_WORDS = re.compile(
    r"=\?[^?\s]{1,64}\?[bBqQ]\?[^?]*\?=(?:\s+=\?[^?\s]{1,64}\?[bBqQ]\?[^?]*\?=)*"
)
# Codecs that interpret escapes or refuse text are no charsets of mail.
_USELESS_CODECS = re.compile(r"escape|undefined|idna|punycode|mbcs|oem", re.IGNORECASE)

Header = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """One MIME part: its headers as sent, and its decoded bytes or its children."""

    part_id: str
    headers: tuple[Header, ...]
    mime_type: str
    charset: str
    filename: str
    disposition: str
    content: bytes
    children: tuple[Part, ...]

    def walk(self) -> Iterator[Part]:
        """Yield this part and everything below it, in the order of the message."""
        yield self
        for child in self.children:
            yield from child.walk()

    def header(self, name: str) -> str:
        """Return the first header of this name (any case), or an empty string."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")

    def all_headers(self, name: str) -> list[str]:
        """Return every header of this name (any case), top first."""
        wanted = name.lower()
        return [value for key, value in self.headers if key.lower() == wanted]

    @property
    def is_attachment(self) -> bool:
        """Tell whether this leaf is a file rather than text to read.

        A message that consists of one text part is text, even if the part has a file name.
        """
        is_sole_text = not self.part_id and self.mime_type.startswith("text/")
        return self.disposition == "attachment" or bool(self.filename and not is_sole_text)

    def text(self) -> str:
        """Return the content in its declared charset; what cannot be decoded is replaced."""
        return decode_bytes(self.content, self.charset)

    def in_utf_8(self) -> bytes:
        """Return the content as Gmail gives text: in UTF-8, though the headers keep the old label.

        What is UTF-8 already, or no text of the labelled charset, stays as it is.
        """
        # An escape begins ISO-2022-JP, which is ASCII by its bytes.
        is_utf_8 = b"\x1b" not in self.content and _decodes(self.content, "utf-8")
        if is_utf_8 or not _decodes(self.content, self.charset):
            return self.content
        return self.content.decode(self.charset).encode()


def parse(raw: bytes) -> Part:
    """Return the part tree of one message."""
    if b"\n" not in raw:
        raw = raw.replace(b"\r", b"\n")
    return _Parser().part(raw, part_id="", default_type="text/plain", depth=0)


class _Parser:
    """Parses one message, and limits the number of its parts."""

    def __init__(self) -> None:
        self._parts_left = _MAX_PARTS

    def part(self, raw: bytes, *, part_id: str, default_type: str, depth: int) -> Part:
        self._parts_left -= 1
        headers, body = split_headers(raw)
        fields = _fields(headers)
        mime_type = _mime_type(fields, default_type)
        content = body
        children: tuple[Part, ...] = ()
        may_nest = depth < _MAX_DEPTH and self._parts_left > 0
        if mime_type.startswith("multipart/"):
            children = self._multipart(body, fields, mime_type, part_id, depth) if may_nest else ()
            if children:
                content = b""
            else:
                mime_type = "text/plain"
        else:
            content = _decode_transfer(body, fields)
            if mime_type == "message/rfc822" and may_nest:
                children = (
                    self.part(
                        content,
                        part_id=_child_id(part_id, 0),
                        default_type="text/plain",
                        depth=depth + 1,
                    ),
                )
        return Part(
            part_id=part_id,
            headers=headers,
            mime_type=mime_type,
            charset=_parameter(fields, "content-type", "charset"),
            filename=_filename(fields),
            disposition=str(fields.get("content-disposition", "")).split(";")[0].strip().lower(),
            content=content,
            children=children,
        )

    def _multipart(
        self, body: bytes, fields: Message, mime_type: str, part_id: str, depth: int
    ) -> tuple[Part, ...]:
        boundary = _parameter(fields, "content-type", "boundary")
        default_type = "message/rfc822" if mime_type == "multipart/digest" else "text/plain"
        children: list[Part] = []
        for piece in _pieces(body, boundary):
            if self._parts_left <= 0:
                break
            child_id = _child_id(part_id, len(children))
            children.append(
                self.part(piece, part_id=child_id, default_type=default_type, depth=depth + 1)
            )
        return tuple(children)


def split_headers(raw: bytes) -> tuple[tuple[Header, ...], bytes]:
    """Return the headers in the sender's case, unfolded, and the body after them.

    An mbox envelope line is skipped; the first line that is no header begins the body.
    """
    found: list[tuple[bytes, list[bytes]]] = []
    position = 0
    for line in _LINE.finditer(raw):
        text = line.group().rstrip(b"\r\n")
        if not text:
            position = line.end()
            break
        is_first = line.start() == 0
        if text[:1] in b" \t" and found:
            found[-1][1].append(text)
        elif match := _HEADER_LINE.fullmatch(text):
            found.append((match[1], [match[2]]))
        elif not (is_first and text.startswith((b"From ", b">From "))):
            position = line.start()
            break
        position = line.end()
    headers = tuple(
        (decode_bytes(name, "ascii"), _header_text(b"".join(values))) for name, values in found
    )
    return headers, raw[position:]


def _header_text(value: bytes) -> str:
    text = decode_bytes(value, "utf-8", fallback="latin-1").strip(" \t\r")
    return text.replace("\r", " ").replace("\0", "")


def _pieces(body: bytes, boundary: str) -> Iterator[bytes]:
    """Yield the bytes between the delimiter lines; a missing closing line is forgiven."""
    if not boundary:
        return
    quoted = re.escape(boundary.encode("utf-8", "surrogateescape"))
    delimiter = re.compile(rb"^--" + quoted + rb"(--)?[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
    start: int | None = None
    for match in delimiter.finditer(body):
        if start is not None:
            yield _without_last_newline(body[start : match.start()])
        start = None if match[1] else match.end()
        if match[1]:
            return
    if start is not None:
        yield body[start:]


def _without_last_newline(piece: bytes) -> bytes:
    if piece.endswith(b"\r\n"):
        return piece[:-2]
    return piece.removesuffix(b"\n")


def _child_id(parent: str, index: int) -> str:
    return f"{parent}.{index}" if parent else str(index)


def _fields(headers: tuple[Header, ...]) -> Message:
    """Return a standard Message with the content headers, to read their parameters."""
    fields = Message()
    for name, value in headers:
        lowered = name.lower()
        if lowered.startswith("content-") and lowered not in fields:
            fields[lowered] = value
    return fields


def _mime_type(fields: Message, default: str) -> str:
    value = str(fields.get("content-type", "")).split(";")[0].strip().lower()
    if not value:
        return default
    return value if re.fullmatch(r"[^\s/]+/[^\s/]+", value) else "text/plain"


def _parameter(fields: Message, header: str, name: str) -> str:
    try:
        value = fields.get_param(name, header=header)
        text = "" if value is None else collapse_rfc2231_value(value)
    except (ValueError, LookupError, TypeError):
        # The library raises for some malformed RFC 2231 parameters; they count as absent.
        return ""
    return clean(text.strip())


def _filename(fields: Message) -> str:
    name = _parameter(fields, "content-disposition", "filename")
    name = name or _parameter(fields, "content-type", "name")
    return decode_words(name)


def _decode_transfer(body: bytes, fields: Message) -> bytes:
    encoding = str(fields.get("content-transfer-encoding", "")).strip().lower()
    if encoding == "base64":
        letters = _NOT_BASE64.sub(b"", body)
        letters = letters[: len(letters) - 1] if len(letters) % 4 == 1 else letters
        return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    return body


def decode_bytes(data: bytes, charset: str, *, fallback: str = "utf-8") -> str:
    """Return the bytes as text without NULs and surrogates; never raises.

    An unknown charset is replaced by the fallback. If the fallback is not UTF-8, so is a charset
    that does not fit the bytes.
    """
    strictness = "replace" if fallback == "utf-8" else "strict"
    known = "" if _USELESS_CODECS.search(charset) else charset
    try:
        text = data.decode(known or fallback, strictness)
    except (LookupError, ValueError):
        text = data.decode(fallback, "replace")
    return clean(text)


def _decodes(data: bytes, charset: str) -> bool:
    try:
        data.decode(charset).encode()
    except (LookupError, ValueError):
        return False
    return not _USELESS_CODECS.search(charset)


def decode_words(text: str) -> str:
    """Return the text with its RFC 2047 encoded words decoded, the broken ones left alone."""
    return _ENCODED_WORDS.sub(lambda match: _decode_run(match.group()), text)


def _decode_run(words: str) -> str:
    try:
        chunks = decode_header(words)
    except (ValueError, LookupError):
        return words
    return "".join(
        chunk if isinstance(chunk, str) else decode_bytes(chunk, charset or "ascii")
        for chunk, charset in chunks
    )


def clean(text: str) -> str:
    """Return the text without NULs and lone surrogates, which JSON readers treat differently."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
