"""JSON as every supported database can store it, and every page can show it."""

from __future__ import annotations

import json
import re
from typing import Any

from jobs.conf import RESULT_MAX_BYTES, RESULT_MAX_DEPTH

# An escaped NUL, not a backslash that happens to stand before "u0000".
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


_DEEP = f"is nested over {RESULT_MAX_DEPTH} levels"


class NotStorable(ValueError):
    """The value cannot be stored; the message says of it what it is or holds."""


def to_json(value: Any) -> str:
    """Return `value` as JSON text.

    Raises:
        NotStorable: not plain JSON, too large, too deep, NaN, NUL, half a character.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        size = len(text.encode())
    except RecursionError as error:
        raise NotStorable(_DEEP) from error
    except (TypeError, ValueError) as error:
        raise NotStorable(f"is not plain JSON: {type(error).__name__}") from error
    if ESCAPED_NUL.search(text):
        raise NotStorable("holds the NUL character")
    if size > RESULT_MAX_BYTES:
        raise NotStorable(f"has {size:,} bytes; at most {RESULT_MAX_BYTES:,} are stored")
    # With so few brackets in all, none can be too deep.
    if text.count("[") + text.count("{") > RESULT_MAX_DEPTH and _is_too_deep(value):
        raise NotStorable(_DEEP)
    return text


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(RESULT_MAX_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list | tuple)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(item, dict | list | tuple) for item in level)
