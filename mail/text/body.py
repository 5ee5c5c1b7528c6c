"""Which parts of a message are its body, and what a reader sees of them."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from mail.text.charsets import codec_for, decode_body, html_charset
from mail.text.cleaning import clean_text
from mail.text.html_text import html_to_text
from mail.text.parsed import AttachmentMeta, TextSource
from mail.text.parts import Fetch, Part

_TEXT_CHARS: Final = 1_000_000
_HTML_CHARS: Final = 2_000_000
_HEAD_BYTES: Final = 200
_CALENDAR_BYTES: Final = 4_096
_PLAIN_TYPES: Final = frozenset({"text/plain", "text", "text/markdown", "text/x-plain"})
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_TAGGED_TYPES: Final = frozenset({"text/enriched", "text/richtext"})
_CALENDAR_METHOD: Final = re.compile(rb"^METHOD:([A-Za-z-]{1,20})", re.MULTILINE | re.IGNORECASE)
_LOOKS_LIKE_HTML: Final = re.compile(
    r"\s{0,100}<(?:!doctype html|html|body|table|div)\b", re.IGNORECASE
)
_UU_BEGIN: Final = re.compile(r"begin [0-7]{3,4} (\S.{0,200})\Z")
_UU_LINE: Final = re.compile(r"[ -`]{1,90}\Z")


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a message, put together from its parts."""

    text: str
    source: TextSource
    html: str | None
    hidden_text: str
    attachments: tuple[AttachmentMeta, ...]
    calendar_method: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """A run of parts after reading: the text they show, the text they hide, and its source."""

    text: str = ""
    html: str = ""
    hidden: str = ""
    source: TextSource = TextSource.NONE


def read_body(parts: list[Part], fetch: Fetch | None) -> Body:
    """Sort the leaves of a message into body and attachments and read the body.

    Of alternatives, the plain text is used unless it is blank; parts side by side are joined in
    order. The text of an attached message is used only if the mail itself has none.
    """
    own = [part for part in parts if not part.nested]
    readings = _read(own, fetch)
    if not any(reading.text.strip() for reading in readings):
        readings += _read([part for part in parts if part.nested], fetch)
    calendar = next((part for part in parts if part.mime_type == "text/calendar"), None)
    return Body(
        text=clean_text(_join(reading.text.strip("\n") for reading in readings), _TEXT_CHARS),
        source=_source(readings),
        html=clean_text(_join(reading.html for reading in readings), _HTML_CHARS) or None,
        hidden_text=clean_text(_join(reading.hidden for reading in readings), _TEXT_CHARS),
        attachments=tuple(part.meta() for part in parts if not (_is_text(part) or _is_amp(part))),
        calendar_method=_calendar_method(calendar, fetch) if calendar is not None else "",
    )


def _read(parts: list[Part], fetch: Fetch | None) -> list[_Reading]:
    """Read body parts, each set of alternatives as one."""
    readings: list[_Reading] = []
    body = [part for part in parts if _is_text(part)] or [p for p in parts if _is_named_text(p)]
    numbered = enumerate(body)
    for _, run in groupby(
        numbered, key=lambda item: (item[1].group, item[1].group is None and item[0])
    ):
        readings.append(_read_alternatives([part for _, part in run], fetch))
    return readings


def _read_alternatives(parts: list[Part], fetch: Fetch | None) -> _Reading:
    plain: list[str] = []
    html: list[str] = []
    source = TextSource.NONE
    for part in parts:
        if part.detached and fetch is None:
            source = TextSource.DETACHED
            continue
        text = _decode(part, fetch)
        (html if _is_html(part, text) else plain).append(text)
    markup = _join(html)
    page = html_to_text(markup[:_HTML_CHARS])
    text = _join(plain)
    if text.strip() or not html:
        source = TextSource.PLAIN if plain else source
        return _Reading(text, markup, page.hidden, source)
    return _Reading(page.shown, markup, page.hidden, TextSource.HTML)


def _source(readings: list[_Reading]) -> TextSource:
    """Name the source of the whole text: HTML as soon as some of it comes from HTML."""
    shown = {reading.source for reading in readings if reading.text.strip()}
    seen = shown or {reading.source for reading in readings}
    ranking = (TextSource.HTML, TextSource.PLAIN, TextSource.DETACHED)
    if not shown:
        ranking = (TextSource.DETACHED, TextSource.HTML, TextSource.PLAIN)
    return next((source for source in ranking if source in seen), TextSource.NONE)


def _decode(part: Part, fetch: Fetch | None) -> str:
    data = part.content(fetch)
    if _is_still_quoted(part, data):
        data = quopri.decodestring(data)
    label = part.content_parameter("charset")
    if part.mime_type in _HTML_TYPES and codec_for(label) is None:
        label = html_charset(data) or label
    text = clean_text(decode_body(data, label), _HTML_CHARS)
    if part.content_parameter("format").lower() == "flowed":
        text = unflow(text, delete_space=part.content_parameter("delsp").lower() == "yes")
    return drop_uuencoded(text)


def _is_still_quoted(part: Part, data: bytes) -> bool:
    """Tell whether this is quoted-printable HTML whose header does not say so.

    Undecoded, its attributes would be misread, and visible text would be taken for hidden.
    """
    encoding = (part.raw_headers.get("Content-Transfer-Encoding") or "").strip().lower()
    is_html = part.mime_type in _HTML_TYPES and b"<" in data
    if part.mime_type in _PLAIN_TYPES:
        # Plain text may quote HTML source, which does not make it HTML.
        is_html = _LOOKS_LIKE_HTML.match(data[:_HEAD_BYTES].decode("ascii", "replace")) is not None
    return (
        encoding != "quoted-printable"
        and is_html
        and data.count(b"=3D") > max(data.count(b'="') + data.count(b"='"), 2)
    )


def _is_text(part: Part) -> bool:
    """Tell whether the part is to be read in the message itself.

    A broken multipart arrives as a leaf that still has its content, so that is read.
    """
    if part.disposition == "attachment" or (part.filename and part.part_id):
        return False
    broken = part.mime_type.startswith("multipart/") and bool(part.body.get("data"))
    return broken or part.mime_type in _PLAIN_TYPES | _HTML_TYPES | _TAGGED_TYPES


def _is_amp(part: Part) -> bool:
    """Tell whether this is the same body once more, for programs that run AMP.

    Replies and forwards leave it out.

    Source: https://amp.dev/documentation/guides-and-tutorials/learn/email-spec/amp-email-structure
    """
    is_alternative = part.group is not None and part.disposition != "attachment"
    return is_alternative and part.mime_type == "text/x-amp-html"


def _is_named_text(part: Part) -> bool:
    """Tell whether the part is inline text with a file name: the body if there is no other."""
    return part.disposition != "attachment" and part.mime_type in _PLAIN_TYPES | _HTML_TYPES


def _is_html(part: Part, text: str) -> bool:
    if part.mime_type in _HTML_TYPES | _TAGGED_TYPES:
        return True
    return _LOOKS_LIKE_HTML.match(text) is not None


def _calendar_method(part: Part, fetch: Fetch | None) -> str:
    declared = part.content_parameter("method")
    if declared:
        return declared.upper()[:20]
    match = _CALENDAR_METHOD.search(part.content(fetch)[:_CALENDAR_BYTES])
    return match.group(1).decode("ascii").upper() if match else ""


def _join(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def unflow(text: str, *, delete_space: bool) -> str:
    """Join the soft line breaks of a format=flowed text (RFC 3676), per quote depth.

    ``delete_space`` is the DelSp parameter: the space before a soft break is not part of the text.
    """
    lines: list[str] = []
    open_depth = -1
    for raw in text.split("\n"):
        content = raw.lstrip(">")
        depth = len(raw) - len(content)
        content = content.removeprefix(" ")
        if depth == open_depth:
            before = lines.pop()
            lines.append((before[:-1] if delete_space else before) + content)
        else:
            lines.append(">" * depth + (" " if depth else "") + content)
        soft = content.endswith(" ") and content != "-- "
        open_depth = depth if soft else -1
    return "\n".join(lines)


def drop_uuencoded(text: str) -> str:
    """Replace uuencoded files by a line that names them."""
    if "begin " not in text:
        return text
    kept: list[str] = []
    skipping = False
    for line in text.split("\n"):
        begin = None if skipping else _UU_BEGIN.match(line)
        if begin is not None:
            skipping = True
            kept.append(f"[uuencoded file: {begin.group(1)}]")
        elif skipping and line == "end":
            skipping = False
        elif not (skipping and _is_uu_line(line)):
            skipping = False
            kept.append(line)
    return "\n".join(kept)


def _is_uu_line(line: str) -> bool:
    """Tell whether the line is data: a count of bytes, then four characters for every three."""
    if _UU_LINE.match(line) is None:
        return False
    octets = (ord(line[0]) - 32) % 64
    return len(line) - 1 <= (octets + 2) // 3 * 4 + 2
