"""The text of an error's traceback; equal failures have their frames formatted once.

For each traceback Python asks when its source files changed, and parses the lines again. Meanwhile
other threads take the interpreter: two thirds of a failing job's time went there.
"""

from __future__ import annotations

import traceback
from types import CodeType, TracebackType

HEADER = "Traceback (most recent call last):\n"
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
HANDLED = "\nDuring handling of the above exception, another exception occurred:\n\n"
MOST_KEPT = 256
MOST_FRAMES = 100
MOST_ERRORS = 10

# A frame's code, by its id; the instruction and the line that it was at.
_Place = tuple[int, int, int]
# The text of a traceback's frames; and their codes, which keep the ids in the key theirs.
_kept: dict[tuple[_Place, ...], tuple[str, list[CodeType]]] = {}


def format_error(error: BaseException) -> str:
    """Return the text of the error and of those behind it, as `traceback.format_exception` does."""
    parts: list[str] = []
    current: BaseException | None = error
    errors = 0
    while current is not None:
        errors += 1
        if errors > MOST_ERRORS or not _has_usual_form(current):
            return "".join(traceback.format_exception(error))
        parts += [*reversed(traceback.format_exception_only(current)), _frames(current)]
        if current.__cause__ is not None:
            current = current.__cause__
            parts.append(CAUSED)
        elif current.__context__ is not None and not current.__suppress_context__:
            current = current.__context__
            parts.append(HANDLED)
        else:
            current = None
    return "".join(reversed(parts))


def _has_usual_form(error: BaseException) -> bool:
    """Say whether its text is that of its frames, followed by its own.

    A group has the texts of its members. For a missing name or attribute Python looks into the
    frames.
    """
    return not isinstance(error, BaseExceptionGroup | NameError | AttributeError | ImportError)


def _frames(error: BaseException) -> str:
    codes: list[CodeType] = []
    places: list[_Place] = []
    last: TracebackType | None = error.__traceback__
    while last is not None:
        code = last.tb_frame.f_code
        codes.append(code)
        places.append((id(code), last.tb_lasti, last.tb_lineno))
        last = last.tb_next
    if not places:
        return ""
    if len(places) > MOST_FRAMES:
        return _text(error)
    key = tuple(places)
    known = _kept.get(key)
    if known is None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        known = _kept[key] = _text(error), codes
    return known[0]


def _text(error: BaseException) -> str:
    return HEADER + "".join(traceback.format_tb(error.__traceback__))
