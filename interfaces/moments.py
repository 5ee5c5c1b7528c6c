"""Which times are taken: those that both databases and Python store, compare and show alike."""

from __future__ import annotations

from datetime import datetime, timedelta

# Beyond these years, time zones and margins exceed the range of Python's and the databases' dates.
FIRST_YEAR = 1970
LAST_YEAR = 9000
YEARS = f"a year from {FIRST_YEAR} to {LAST_YEAR}"


def is_in_range(moment: datetime) -> bool:
    """Say whether the time lies in one of these years."""
    return FIRST_YEAR <= moment.year <= LAST_YEAR


def earlier(moment: datetime, span: timedelta) -> datetime | None:
    """Return the time that lies this span before `moment`; None where that is out of range."""
    try:
        found = moment - span
    except OverflowError:
        return None
    return found if is_in_range(found) else None
