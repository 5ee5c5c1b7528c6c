"""Durations in words, short enough for a table cell."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def in_words(seconds: float) -> str:
    """Return a duration in its largest unit: "45 s", "3 min", "2 h", "5 d", "120 ms"."""
    if seconds < 0:
        return f"-{in_words(-seconds)}"
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    if seconds >= 1 or seconds == 0:
        return f"{int(seconds)} s"
    return f"{max(1, round(seconds * 1000))} ms"


def since_in_words(moment: datetime, now: datetime) -> str:
    """Return how far `moment` is from `now`: "3 min ago", "in 2 h", "just now"."""
    seconds = (now - moment).total_seconds()
    if -1 < seconds < 1:
        return "just now"
    return f"{in_words(seconds)} ago" if seconds > 0 else f"in {in_words(-seconds)}"


def probe_in_words(probe_at: datetime, now: datetime) -> str:
    """Return when a breaker's next probe runs; once its time has come, the first job is the probe."""
    return "with the next job" if probe_at <= now else since_in_words(probe_at, now)


def plain_number(value: float) -> str:
    """Return a number as people write it, with all its digits and without an exponent."""
    return str(int(value)) if value == int(value) else f"{Decimal(repr(value)):f}"
