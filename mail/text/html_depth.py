"""Keeps HTML from taking the sanitiser minutes, or all memory, by its nesting or its escapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Final

from mail.text.html_tokens import Tag, Text, tokens

# Elements without content, or that the next of their kind ends; alone they do not nest.
_NOT_NESTING: Final = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "dd",
        "dt",
        "hr",
        "img",
        "input",
        "li",
        "link",
        "meta",
        "option",
        "p",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "wbr",
    ]
)
# The sanitiser builds a tree, whose time and memory grow with the open elements at each start tag.
_MAX_EFFORT: Final = 1_000_000
# So few tags stay below that effort however they are nested.
_FEW_TAGS: Final = 1_400
# For each & and each no-break space the sanitiser reads the text, or the attribute, to its end once
# more. By this bound that takes half a second.
_MAX_REREAD: Final = 20_000_000_000
# The length of the pieces in which text alone is handed over, so that none is read for long.
_PIECE_CHARS: Final = 1_000
# The sanitiser keeps no comment, but texts on both sides of one stay apart.
_BETWEEN_PIECES: Final = "<!---->"


def buildable(html: str) -> str:
    """Return HTML that the sanitiser can handle; if it nests or escapes too much, only its text.

    All HTML from mail must go through this function before it goes to the sanitiser.
    """
    rereads = (html.count("&") + html.count("\N{NO-BREAK SPACE}")) * len(html)
    if html.count("<") <= _FEW_TAGS and rereads <= _MAX_REREAD:
        return html
    # Written again from the tokens, so that the sanitiser gets exactly the tags that were counted.
    found = list(tokens(html))
    if rereads > _MAX_REREAD or _effort(found) > _MAX_EFFORT:
        return _only_text(found)
    return "".join(_as_html(one) for one in found)


def _only_text(found: Iterable[Tag | Text]) -> str:
    text = " ".join(one.data for one in found if isinstance(one, Text) and not one.raw_in)
    pieces = (text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS))
    return _BETWEEN_PIECES.join(escape(piece) for piece in pieces)


def _effort(found: Iterable[Tag | Text]) -> int:
    """Return how many elements are open at each start tag, summed up."""
    effort = depth = 0
    opened: Counter[str] = Counter()
    for one in found:
        if isinstance(one, Text):
            continue
        if not one.closing:
            effort += depth
        # An end tag without a start tag ends nothing.
        step = -1 if one.closing else 1
        if one.name not in _NOT_NESTING and opened[one.name] + step >= 0:
            opened[one.name] += step
            depth += step
    return effort


def _as_html(one: Tag | Text) -> str:
    if isinstance(one, Text):
        return "" if one.raw_in else escape(one.data)
    if one.closing:
        return f"</{one.name}>"
    written = "".join(f' {name}="{escape(value)}"' for name, value in one.attributes().items())
    return f"<{one.name}{written}>"
