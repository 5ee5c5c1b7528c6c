"""How an HTML element looks, as far as it decides whether its text can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_WHITE: Final = frozenset({"white", "#fff", "#ffffff", "rgb(255,255,255)"})
_SEE_THROUGH: Final = frozenset({"transparent", "none", "inherit", "initial", "unset"})
_LENGTH: Final = re.compile(r"(-?\d{0,9}(?:\.\d{0,9})?)(px|pt|em|rem|%|)\Z")
_SMALLEST_READABLE: Final = {"px": 2.0, "pt": 2.0, "em": 0.2, "rem": 0.2, "%": 15.0, "": 0.1}
_OFF_SCREEN: Final = -500.0
_SELECTOR: Final = re.compile(r"[a-z][a-z0-9]{0,20}|[a-z0-9]{0,20}[.#][\w-]{1,100}")
_CSS_PIECE: Final = re.compile(r"[{}]|[^{}]+")
_CSS_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_MAX_CLASSES: Final = 50

Style = Mapping[str, str]
"""CSS declarations by property, in lower case, values without spaces."""


@dataclass(frozen=True, slots=True)
class Look:
    """What an element's text looks like; children start from their parent's look.

    An element inside cannot undo ``gone``; it can undo ``tiny`` and ``invisible``.
    """

    gone: bool = False
    tiny: bool = False
    invisible: bool = False
    color: str = "black"
    ground: str = "white"

    @property
    def hidden(self) -> bool:
        """Whether a reader cannot see text with this look."""
        unseen = self.color == self.ground or {self.color, self.ground} <= _WHITE
        return self.gone or self.tiny or self.invisible or unseen

    def inside(self, name: str, attributes: Mapping[str, str], style: Style) -> Look:
        """Return the look of a child element with these attributes and declarations."""
        if not attributes and not style:
            return self
        visibility = style.get("visibility")
        size = style.get("font-size")
        font_color = attributes.get("color", "").strip().lower() if name == "font" else ""
        ground = (
            style.get("background-color")
            or style.get("background")
            or attributes.get("bgcolor", "").strip().lower()
            or ("image" if "background" in attributes else "")
        )
        return Look(
            gone=self.gone or "hidden" in attributes or _is_gone(style),
            tiny=_is_tiny(size) if size else self.tiny or style.get("font", "").startswith("0"),
            invisible=visibility != "visible" if visibility else self.invisible,
            color=style.get("color") or font_color or self.color,
            ground=self.ground if not ground or ground in _SEE_THROUGH else ground,
        )


class Stylesheet:
    """The rules of a document's ``style`` elements that have simple selectors."""

    def __init__(self) -> None:
        self._rules: dict[str, dict[str, str]] = {}

    def add(self, css: str) -> None:
        """Add a style element's rules, except those in ``@media``, which are for other devices."""
        depth = 0
        selectors = ""
        for piece in _CSS_PIECE.findall(_CSS_COMMENT.sub("", css.lower())):
            if piece == "{":
                depth += 1
            elif piece == "}":
                depth = max(0, depth - 1)
            elif depth == 0:
                selectors = piece.rpartition(";")[2]
            elif depth == 1 and "@" not in selectors:
                self._add_rule(selectors, declarations(piece))

    def style(self, name: str, attributes: Mapping[str, str]) -> Style:
        """Return the declarations for an element, its own ``style`` attribute winning."""
        if not attributes and not self._rules:
            return {}
        inline = attributes.get("style")
        own = declarations(inline) if inline else {}
        if not self._rules:
            return own
        marks = [f".{mark}" for mark in attributes.get("class", "").lower().split()[:_MAX_CLASSES]]
        if attributes.get("id"):
            marks.append(f"#{attributes['id'].strip().lower()}")
        merged: dict[str, str] = dict(self._rules.get(name, {}))
        for mark in marks:
            merged |= self._rules.get(mark, {})
            merged |= self._rules.get(name + mark, {})
        return merged | own

    def _add_rule(self, selectors: str, style: Mapping[str, str]) -> None:
        for selector in map(str.strip, selectors.split(",")):
            if _SELECTOR.fullmatch(selector):
                self._rules.setdefault(selector, {}).update(style)


def declarations(style: str) -> dict[str, str]:
    """Return the CSS declarations of a ``style`` attribute or a rule's body."""
    found: dict[str, str] = {}
    for declaration in style.lower().split(";"):
        name, colon, value = declaration.partition(":")
        if colon:
            found[name.strip()] = "".join(value.replace("!important", "").split())
    return found


def _is_gone(style: Style) -> bool:
    if style.get("display") == "none" or style.get("mso-hide") == "all":
        return True
    if _number(style.get("opacity")) == 0.0:
        return True
    if any(
        (_number(style.get(edge)) or 0.0) < _OFF_SCREEN for edge in ("left", "top", "text-indent")
    ):
        return True
    heights = (_number(style.get("height")), _number(style.get("max-height")))
    return style.get("overflow") == "hidden" and 0.0 in heights


def _is_tiny(size: str) -> bool:
    match = _LENGTH.match(size)
    number = _number(size)
    return match is not None and number is not None and number < _SMALLEST_READABLE[match.group(2)]


def _number(length: str | None) -> float | None:
    match = _LENGTH.match(length) if length else None
    if match is None or match.group(1) in {"", "-", ".", "-."}:
        return None
    return float(match.group(1))
