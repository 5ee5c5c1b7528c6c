"""The part tree of a Gmail message resource, flattened without recursion and without trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mail.text.addresses import decode_addresses
from mail.text.cleaning import clean_line
from mail.text.headers import decode_base64, decode_header, parameter
from mail.text.parsed import AttachmentMeta, Headers

Fetch = Callable[[str], bytes]
"""Gets the content behind a Gmail attachment id; its errors are passed on to the caller."""

_MAX_PARTS: Final = 2_000
_MAX_HEADERS: Final = 500
_HEADER_NAME_CHARS: Final = 200
_HEADER_CHARS: Final = 16_384
_FILENAME_CHARS: Final = 255
_ID_CHARS: Final = 998


@dataclass(frozen=True, slots=True)
class Part:
    """One leaf of the tree.

    ``group`` tells the outermost multipart/alternative it belongs to, None outside of any.
    ``nested`` is set inside an attached message (message/rfc822).
    """

    part_id: str
    mime_type: str
    filename: str
    raw_headers: Headers
    body: Mapping[str, Any]
    group: int | None
    nested: bool

    @property
    def disposition(self) -> str:
        """``inline``, ``attachment`` or empty."""
        value = self.raw_headers.get("Content-Disposition") or ""
        return value.partition(";")[0].strip().lower()

    @property
    def attachment_id(self) -> str:
        """The id under which Gmail keeps the content; empty when it is in the resource."""
        return clean_line(_text(self.body.get("attachmentId")), 4_096)

    @property
    def detached(self) -> bool:
        """Whether the content is only behind the attachment id."""
        return not self.body.get("data") and bool(self.attachment_id)

    def content_parameter(self, name: str) -> str:
        """Return a parameter of the part's Content-Type, decoded, else ""."""
        return parameter(self.raw_headers.get("Content-Type"), name)

    def content(self, fetch: Fetch | None) -> bytes:
        """Return the part's bytes; none if they are detached and there is no ``fetch``."""
        if self.detached:
            return fetch(self.attachment_id) if fetch is not None else b""
        return decode_base64(_text(self.body.get("data")))

    def meta(self) -> AttachmentMeta:
        """Describe the part as an attachment."""
        size = self.body.get("size")
        content_id = clean_line(self.raw_headers.get("Content-ID") or "", _ID_CHARS).strip("<>")
        return AttachmentMeta(
            part_id=self.part_id,
            filename=self.filename,
            mime_type=self.mime_type,
            size=size if isinstance(size, int) and 0 <= size < 2**63 else 0,
            attachment_id=self.attachment_id,
            content_id=content_id,
            inline=self.disposition == "inline" or (not self.disposition and bool(content_id)),
        )


def leaves(payload: object) -> Iterator[Part]:
    """Yield the leaves of a MessagePart tree in document order, at most 2,000 nodes of it.

    An attached message is yielded as a leaf itself, followed by its own leaves marked nested.
    """
    stack: list[tuple[object, int | None, bool]] = [(payload, None, False)]
    for number in range(_MAX_PARTS):
        if not stack:
            return
        node, group, nested = stack.pop()
        if not isinstance(node, Mapping):
            continue
        part = _part(node, group, nested)
        children = node.get("parts")
        if not isinstance(children, list) or not children:
            yield part
            continue
        if part.mime_type == "message/rfc822":
            yield part
            nested = True
        if part.mime_type == "multipart/alternative" and group is None:
            group = number
        stack.extend((child, group, nested) for child in reversed(children[:_MAX_PARTS]))


def raw_headers(node: Mapping[str, Any]) -> Headers:
    """Return a node's headers as Gmail gives them, undecoded and bounded."""
    fields = node.get("headers")
    if not isinstance(fields, list):
        return Headers()
    pairs = (
        (_text(field.get("name"))[:_HEADER_NAME_CHARS], _text(field.get("value")))
        for field in fields[:_MAX_HEADERS]
        if isinstance(field, Mapping)
    )
    return Headers(tuple(pairs))


def decoded_headers(headers: Headers) -> Headers:
    """Return the headers as text to store."""
    return Headers(
        tuple(
            (clean_line(name, _HEADER_NAME_CHARS), _decoded(name, value)) for name, value in headers
        )
    )


def _decoded(name: str, value: str) -> str:
    # Stored so that it can be parsed again, because answers go to these addresses.
    if name.strip().lower() == "reply-to":
        return clean_line(decode_addresses(value), _HEADER_CHARS)
    return decode_header(value, _HEADER_CHARS)


def _part(node: Mapping[str, Any], group: int | None, nested: bool) -> Part:
    headers = raw_headers(node)
    body = node.get("body")
    return Part(
        part_id=clean_line(_text(node.get("partId")), 100),
        mime_type=clean_line(_text(node.get("mimeType")), 255).lower() or "text/plain",
        filename=_filename(node, headers),
        raw_headers=headers,
        body=body if isinstance(body, Mapping) else {},
        group=group,
        nested=nested,
    )


def _filename(node: Mapping[str, Any], headers: Headers) -> str:
    """Return the last component of the name, so that no path gets in."""
    name = (
        decode_header(_text(node.get("filename")), _HEADER_CHARS)
        or parameter(headers.get("Content-Disposition"), "filename")
        or parameter(headers.get("Content-Type"), "name")
    )
    return name.replace("\\", "/").rpartition("/")[2][-_FILENAME_CHARS:].strip()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
