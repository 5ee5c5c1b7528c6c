"""HTML cut into tags and text in one pass, in time linear in its length.

Mail is hostile input: tree builders take quadratic time on deep nesting, and the standard
library's parser on unclosed tags, so neither may see it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_OPENING: Final = re.compile(r"<(?:[!?]|/?([a-zA-Z][^\s/>]{0,40}))")
# The group's repetition is not possessive, because Python before 3.11.5 gets that wrong.
_TAG_REST: Final = re.compile(r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*>""")
_ATTRIBUTE: Final = re.compile(
    r"""([^\s"'<>/=]{1,100})\s{0,20}(?:=\s{0,20}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?"""
)
_RAW_TEXT: Final = frozenset({"script", "style", "title", "textarea", "xmp", "iframe"})
"""Elements whose content is text up to their own end tag, whatever tags it seems to hold."""


@dataclass(frozen=True, slots=True)
class Text:
    """Characters between tags, with entities resolved; ``raw_in`` names a raw text element."""

    data: str
    raw_in: str = ""


@dataclass(frozen=True, slots=True)
class Tag:
    """A start or end tag; ``source`` holds its attributes as written."""

    name: str
    closing: bool
    source: str

    def attributes(self) -> dict[str, str]:
        """Return the attributes by lower-case name; the first of a name counts."""
        found: dict[str, str] = {}
        if not self.source:
            return found
        for name, *values in _ATTRIBUTE.findall(self.source):
            found.setdefault(name.lower(), html.unescape("".join(values)))
        return found


def tokens(markup: str) -> Iterator[Text | Tag]:
    """Yield the tags and texts of a document; comments and declarations are left out."""
    position = 0
    quotes_close = True
    while (opening := _OPENING.search(markup, position)) is not None:
        start = opening.start()
        if start > position:
            yield Text(html.unescape(markup[position:start]))
        if opening.group(1) is None:
            position = _after_declaration(markup, start)
            continue
        rest = _TAG_REST.match(markup, opening.end()) if quotes_close else None
        if rest is None:
            # An unclosed quote would swallow the rest, so quotes are ignored from here on.
            quotes_close = False
            end = markup.find(">", opening.end())
            position = len(markup) if end < 0 else end + 1
        else:
            position = rest.end()
        name, source = opening.group(1).lower(), markup[opening.end() : position - 1]
        tag = Tag(name, closing=markup[start + 1] == "/", source=source)
        yield tag
        if tag.name in _RAW_TEXT and not tag.closing:
            end = _end_of_raw(markup, tag.name, position)
            yield Text(markup[position:end], raw_in=tag.name)
            position = end
    if position < len(markup):
        yield Text(html.unescape(markup[position:]))


def _after_declaration(markup: str, start: int) -> int:
    """Return where a comment or declaration ends; an unclosed one runs to the end."""
    closing = "-->" if markup.startswith("<!--", start) else ">"
    end = markup.find(closing, start + 2)
    return len(markup) if end < 0 else end + len(closing)


def _end_of_raw(markup: str, name: str, position: int) -> int:
    """Return where the end tag of a raw text element starts; an unclosed one runs to the end."""
    closing = re.compile(f"</{name}", re.IGNORECASE).search(markup, position)
    return closing.start() if closing else len(markup)
