"""JSON that every supported database can store and every page can show."""

from __future__ import annotations

import json
import re
from typing import Any

from interfaces.stored_json import is_deeper_than
from jobs.conf import RESULT_MAX_BYTES, RESULT_MAX_DEPTH

# An escaped NUL, not an escaped backslash before "u0000".
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_DEEP = f"is nested over {RESULT_MAX_DEPTH} levels"


class NotStorable(ValueError):
    """The value cannot be stored; the message completes "the result …"."""


def to_json(value: Any) -> str:
    """Return `value` as JSON text.

    Raises:
        NotStorable: not plain JSON, too large, too deep, NaN, NUL, a lone surrogate.
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
    if is_deeper_than(RESULT_MAX_DEPTH, text):
        raise NotStorable(_DEEP)
    return text
