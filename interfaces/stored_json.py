"""Stored JSON: read without errors, and made presentable.

The JSON that this service stores is checked before. But a restored dump, another program or an
earlier version may have stored JSON that Python cannot read or no response can carry.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    _JSONField = models.JSONField[Any, Any]
else:
    _JSONField = models.JSONField

# Deeper parts are cut off when shown. The JSON that this service stores is far less deep.
SHOWN_DEPTH = 64
# Deeper JSON is not parsed at all: Python's own limit depends on the depth of the call stack.
READ_DEPTH = 200
TOO_DEEP = "(nested too deeply to be shown)"
# Lone surrogates, which cannot be encoded, and NUL, which PostgreSQL's text cannot hold.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKET = re.compile(r"[][{}]")
_NO_CHARACTER = re.compile("[\ud800-\udfff\x00]")


@dataclass(frozen=True)
class UnreadableJSON:
    """A placeholder for unreadable JSON. It is not JSON itself, so it cannot be stored by mistake."""

    length: int

    def __str__(self) -> str:
        return f"(cannot be read: {self.length:,} characters of JSON, nested too deeply)"


class StoredJSONField(_JSONField):
    """A JSON column that can be read whatever it contains."""

    def deconstruct(self) -> Any:
        """Name a plain JSONField to migrations: the column is the same."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the value, or UnreadableJSON."""
        if isinstance(value, str) and is_deeper_than(READ_DEPTH, value):
            return UnreadableJSON(len(value))
        try:
            return super().from_db_value(value, expression, connection)
        except (ValueError, RecursionError):
            return _read_closely(value)


def presentable(value: object, depth: int = SHOWN_DEPTH) -> Any:
    """Return JSON data that every response, page, log and database can carry.

    Text replaces what is too deep, unreadable or not a finite number.
    """
    match value:
        case str():
            return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", value)
        case float() if not math.isfinite(value):
            return f"({'-' if value < 0 else ''}beyond every number)"
        case UnreadableJSON():
            return str(value)
        case Mapping() | list() | tuple() if not depth:
            return TOO_DEEP
        case Mapping():
            return {
                presentable(str(key)): presentable(item, depth - 1) for key, item in value.items()
            }
        case list() | tuple():
            return [presentable(item, depth - 1) for item in value]
    return value


def is_deeper_than(levels: int, text: str) -> bool:
    """Say whether this JSON text has arrays and objects nested over so many levels."""
    # Counting brackets is fast, and nearly all texts have fewer than that.
    if text.count("[") + text.count("{") <= levels:
        return False
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(_STRING.sub("", text)))
    return max(accumulate(steps), default=0) > levels


def _read_closely(text: str) -> Any:
    """Parse JSON with numbers that are too long for Python."""
    try:
        return json.loads(text, parse_int=_whole_number)
    except (ValueError, RecursionError):
        return UnreadableJSON(len(text))


def _whole_number(digits: str) -> int | float:
    """Read a whole number; one that is too long for Python becomes infinite, as 1e999 does."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)
