"""Finds the faults of numbers, spans and times that callers pass."""

from __future__ import annotations

from datetime import datetime

from interfaces.moments import YEARS, is_in_range
from jobs.errors import Fault


def number_faults(name: str, number: object, least: int, most: int) -> list[Fault]:
    """Return what is wrong with a whole number. True and 2.0 are not accepted."""
    if not isinstance(number, int) or isinstance(number, bool):
        return [Fault(name, "wrong_type", "must be a whole number")]
    if not least <= number <= most:
        return [Fault(name, "out_of_range", f"must be from {least:,} to {most:,}")]
    return []


def seconds_faults(name: str, seconds: object, least: float, most: float) -> list[Fault]:
    """Return what is wrong with a number of seconds, whole or not."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return [Fault(name, "wrong_type", "must be a number")]
    # Written so that NaN is refused, too.
    if least <= seconds <= most:
        return []
    return [Fault(name, "out_of_range", f"must be from {least:,} to {most:,} seconds")]


def moment_faults(name: str, moment: object) -> list[Fault]:
    """Return what is wrong with a time. A date is not accepted."""
    if not isinstance(moment, datetime):
        return [Fault(name, "wrong_type", "must be a datetime")]
    # A tzinfo may return no offset; the databases treat such a time as one without a zone.
    if moment.utcoffset() is None:
        return [Fault(name, "naive_time", "must carry a time zone")]
    if not is_in_range(moment):
        return [Fault(name, "out_of_range", f"must lie in {YEARS}")]
    return []
