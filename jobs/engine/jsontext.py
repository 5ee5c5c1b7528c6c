"""JSON as every supported database can store it."""

from __future__ import annotations

import json
import re
from typing import Any

# An escaped NUL, not a backslash that happens to stand before "u0000".
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class NotStorable(ValueError):
    """The value is not JSON, or holds what a database cannot store (NaN, NUL, surrogates)."""


def to_json(value: Any) -> str:
    """Return `value` as JSON text.

    Raises:
        NotStorable: it is not plain JSON.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStorable(f"not plain JSON: {type(error).__name__}") from error
    if ESCAPED_NUL.search(text):
        raise NotStorable("holds the NUL character")
    return text
