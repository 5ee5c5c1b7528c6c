"""HTML mail made harmless: no script, no form, no style sheet, and remote images only when asked for."""

from __future__ import annotations

from typing import Final

import nh3

from mail.text.html_depth import buildable

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
# No property that fetches, as a background image does, and no position, so that nothing can cover
# other content.
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
# Browsers skip these characters before a scheme, and some of them in it.
_SKIPPED: Final = dict.fromkeys(range(33))
_SCHEMES: Final = frozenset({"http", "https", "mailto", "tel", "data"})


def sanitize_html(html: str, *, remote_images: bool = False) -> str:
    """Return the HTML without active content; without `remote_images` it fetches nothing.

    The result is shown in a sandboxed frame with a policy of its own in addition. Of HTML that
    nests too deeply, or escapes too much, to be parsed soon only the text is left.
    """

    def keep(tag: str, name: str, value: str) -> str | None:
        if tag == "img" and name == "src":
            return _image_source(value, remote_images=remote_images)
        if tag == "a" and value.translate(_SKIPPED).lower().startswith("data:"):
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


def _image_source(source: str, *, remote_images: bool) -> str:
    kind = source.strip().lower()
    if kind.startswith(("data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp")):
        return source
    if remote_images and kind.startswith("https:"):
        return source
    return BLOCKED_IMAGE
