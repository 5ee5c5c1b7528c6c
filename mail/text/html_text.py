"""HTML mail to readable text, keeping apart what the reader would not see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mail.text.html_styles import Look, Stylesheet
from mail.text.html_tokens import Tag, Text, tokens


def _elements(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID: Final = _elements("area base br col embed hr img input link meta param source track wbr")
_PARAGRAPH: Final = _elements(
    "blockquote dl fieldset figure form h1 h2 h3 h4 h5 h6 hr ol p pre table ul"
)
_BLOCK: Final = _PARAGRAPH | _elements(
    "address article aside body br caption center dd div dt figcaption footer header html legend "
    "li main nav option section tbody tfoot thead tr"
)
_SELF_CLOSING: Final = _elements("dd dt li option p td th tr")
"""Elements that end where the next of their kind starts."""
_UNSEEN: Final = _elements("applet noframes object svg template")
_SPACES: Final = re.compile(r"[\s\xa0]+")
_ZERO_WIDTH: Final = {ord(char): None for char in "\u200b\u2060\ufeff\u034f\xad"}
_JOINERS: Final = " \u200c\u200d"
_MAX_DEPTH: Final = 10_000
_MAX_QUOTE_DEPTH: Final = 9


@dataclass(frozen=True, slots=True)
class Page:
    """The two texts of an HTML body."""

    shown: str
    hidden: str


@dataclass(frozen=True, slots=True)
class _Element:
    """An open element with what its content inherits."""

    name: str = ""
    look: Look = field(default_factory=Look)
    preformatted: bool = False
    unseen: bool = False
    quote_depth: int = 0


@dataclass(slots=True)
class _Writer:
    """Collects text as lines: one space between words, at most one blank line between lines."""

    lines: list[str] = field(default_factory=list)
    line: list[str] = field(default_factory=list)
    marker: str = ""
    blank_wanted: bool = False
    space_wanted: bool = False

    def write(self, text: str, prefix: str) -> None:
        """Append text, squeezing white space at its ends and inside."""
        squeezed = _SPACES.sub(" ", text.translate(_ZERO_WIDTH))
        self.space_wanted = self.space_wanted or squeezed.startswith(" ")
        core = squeezed.strip(" ")
        if not core.strip(_JOINERS):
            return
        if not self.line:
            if self.blank_wanted and self.lines:
                self.lines.append(prefix.rstrip())
            self.line.append(prefix + self.marker)
            self.blank_wanted, self.marker = False, ""
        elif self.space_wanted:
            self.line.append(" ")
        self.line.append(core)
        self.space_wanted = squeezed.endswith(" ")

    def end_line(self, *, paragraph: bool) -> None:
        """End the line, if there is one; after a paragraph a blank line stands before the next."""
        if self.line:
            self.lines.append("".join(self.line))
            self.line = []
        self.space_wanted = False
        self.blank_wanted = self.blank_wanted or paragraph

    def text(self) -> str:
        """Return everything written."""
        self.end_line(paragraph=False)
        return "\n".join(self.lines)


class _Reader:
    """Follows the tags of one document."""

    def __init__(self) -> None:
        self.shown = _Writer()
        self.hidden = _Writer()
        self._stack = [_Element()]
        self._open: dict[str, int] = {}
        self._styles = Stylesheet()

    def text(self, token: Text) -> None:
        """Write the characters to the shown or the hidden text, as the open elements demand."""
        if token.raw_in == "style":
            self._styles.add(token.data)
        if token.raw_in not in {"", "textarea"} or self._top.unseen:
            return
        if not self._top.preformatted:
            self._write(token.data)
            return
        first, *rest = token.data.split("\n")
        self._write(first)
        for line in rest:
            self._writer.end_line(paragraph=not line.strip())
            self._write(line)

    def open(self, tag: Tag) -> None:
        """Start an element."""
        if tag.name == self._top.name and tag.name in _SELF_CLOSING:
            self.close(tag.name)
        if tag.name in _BLOCK:
            self._writer.end_line(paragraph=tag.name in _PARAGRAPH)
        elif tag.name in {"td", "th"}:
            self._write(" ")
        attributes = tag.attributes()
        if tag.name == "img":
            self._write(f" {attributes.get('alt', '')} ")
        if tag.name in _VOID or len(self._stack) > _MAX_DEPTH:
            return
        self._stack.append(self._element(tag.name, attributes))
        self._open[tag.name] = self._open.get(tag.name, 0) + 1
        if tag.name == "li":
            self._writer.marker = "- "

    def close(self, name: str) -> None:
        """End the innermost open element of this name, and those left open inside it."""
        if name in _BLOCK:
            self._writer.end_line(paragraph=name in _PARAGRAPH)
        while self._open.get(name):
            element = self._stack.pop()
            self._open[element.name] -= 1
            if element.name == name:
                return

    @property
    def _top(self) -> _Element:
        return self._stack[-1]

    @property
    def _writer(self) -> _Writer:
        return self.hidden if self._top.look.hidden else self.shown

    def _write(self, text: str) -> None:
        self._writer.write(text, "> " * self._top.quote_depth)

    def _element(self, name: str, attributes: Mapping[str, str]) -> _Element:
        parent = self._top
        depth = parent.quote_depth + (name == "blockquote")
        return _Element(
            name=name,
            look=parent.look.inside(name, attributes, self._styles.style(name, attributes)),
            preformatted=parent.preformatted or name == "pre",
            unseen=parent.unseen or name in _UNSEEN,
            quote_depth=min(depth, _MAX_QUOTE_DEPTH),
        )


def html_to_text(markup: str) -> Page:
    """Return the text a reader of this HTML sees, and the text it holds but does not show.

    Blocks become lines, list items get a dash, quotes get ``>``, pictures give their alternative
    text, links keep their words only. Takes time linear in the length of ``markup``.
    """
    reader = _Reader()
    for token in tokens(markup):
        if isinstance(token, Text):
            reader.text(token)
        elif token.closing:
            reader.close(token.name)
        else:
            reader.open(token)
    return Page(reader.shown.text(), reader.hidden.text())
