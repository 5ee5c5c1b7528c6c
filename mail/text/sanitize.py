"""HTML mail made harmless: no script, no form, no style sheet, and remote images only when asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Final

import nh3

from mail.text.html_tokens import Tag, Text, tokens

# What a remote image is replaced by, so that the reader sees that one was there.
BLOCKED_IMAGE: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='16' height='16'%3E"
    "%3Crect width='15' height='15' x='.5' y='.5' fill='none' stroke='%23999'/%3E%3C/svg%3E"
)
_TAGS: Final = frozenset(
    [
        "a",
        "abbr",
        "b",
        "big",
        "blockquote",
        "br",
        "caption",
        "center",
        "code",
        "col",
        "colgroup",
        "dd",
        "del",
        "div",
        "dl",
        "dt",
        "em",
        "font",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "ins",
        "li",
        "ol",
        "p",
        "pre",
        "q",
        "s",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "tt",
        "u",
        "ul",
    ]
)
_ATTRIBUTES: Final = {
    "*": {"align", "bgcolor", "color", "dir", "lang", "style", "title", "valign"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "font": {"face", "size"},
    "table": {"border", "cellpadding", "cellspacing", "width"},
    "td": {"colspan", "rowspan", "width", "height"},
    "th": {"colspan", "rowspan", "width", "height"},
    "col": {"span", "width"},
    "ol": {"start", "type"},
}
# Nothing that could fetch, as a background image does, and no position: nothing leaves its place.
_STYLES: Final = frozenset(
    [
        "background-color",
        "border",
        "border-bottom",
        "border-collapse",
        "border-color",
        "border-left",
        "border-radius",
        "border-right",
        "border-spacing",
        "border-style",
        "border-top",
        "border-width",
        "color",
        "direction",
        "display",
        "font-family",
        "font-size",
        "font-style",
        "font-weight",
        "height",
        "letter-spacing",
        "line-height",
        "list-style-type",
        "margin",
        "margin-bottom",
        "margin-left",
        "margin-right",
        "margin-top",
        "max-width",
        "min-width",
        "padding",
        "padding-bottom",
        "padding-left",
        "padding-right",
        "padding-top",
        "text-align",
        "text-decoration",
        "text-indent",
        "text-transform",
        "vertical-align",
        "white-space",
        "width",
        "word-break",
    ]
)
# Elements that hold nothing, or that the next of them ends: they nest by way of others only.
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
# So few tags stay below it however they are nested.
_FEW_TAGS: Final = 1_400
_SCHEMES: Final = frozenset({"http", "https", "mailto", "tel", "data"})


def sanitize_html(html: str, *, remote_images: bool = False) -> str:
    """Return the HTML without anything that acts; without `remote_images` it fetches nothing.

    It is shown in a sandboxed frame under a policy of its own all the same. HTML that nests too deeply
    to be built is left with its text.
    """

    def keep(tag: str, name: str, value: str) -> str | None:
        if tag == "img" and name == "src":
            return _image_source(value, remote_images=remote_images)
        if tag == "a" and value.strip().lower().startswith("data:"):
            return None
        return value

    return nh3.clean(
        buildable(html),
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        attribute_filter=keep,
        filter_style_properties=set(_STYLES),
        url_schemes=set(_SCHEMES),
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        clean_content_tags={"script", "style", "title", "noscript", "template"},
    )


def buildable(html: str) -> str:
    """Return the HTML as the sanitiser can build it; where it nests too deeply, its text alone.

    What comes from a mail goes through here before it goes to the sanitiser.
    """
    if html.count("<") <= _FEW_TAGS:
        return html
    # Written anew, so that the tags that are built are the very ones that were counted.
    found = list(tokens(html))
    if _effort(found) > _MAX_EFFORT:
        return " ".join(
            escape(one.data) for one in found if isinstance(one, Text) and not one.raw_in
        )
    return "".join(_as_html(one) for one in found)


def _effort(found: Iterable[Tag | Text]) -> int:
    """Return how many elements are open at each start tag, summed up."""
    effort = depth = 0
    opened: Counter[str] = Counter()
    for one in found:
        if isinstance(one, Text):
            continue
        if not one.closing:
            effort += depth
        # An end tag ends nothing that did not begin.
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


def _image_source(source: str, *, remote_images: bool) -> str:
    kind = source.strip().lower()
    if kind.startswith(("data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp")):
        return source
    if remote_images and kind.startswith("https:"):
        return source
    return BLOCKED_IMAGE
