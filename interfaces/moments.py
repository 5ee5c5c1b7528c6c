"""Times: which are taken, those that both databases and Python have alike, and how they are written."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# Beyond these years, time zones and margins exceed the range of Python's and the databases' dates.
FIRST_YEAR = 1970
LAST_YEAR = 9000
# Fifty years: what a setting counts from now stays in them. By the unit that ends the setting's name.
LONGEST = {"DAYS": 18_262, "HOURS": 438_288, "MINUTES": 26_297_280, "SECONDS": 1_577_836_800}
# Of what is counted in no time.
MOST = 1_000_000
# A lease over which no heartbeat gets in time, polls that take a processor, a process that cannot begin.
LEAST = {"JOB_LEASE_SECONDS": 0.5, "JOB_POLL_SECONDS": 0.01, "JOB_ISOLATED_MEMORY_MB": 256}
YEARS = f"a year from {FIRST_YEAR} to {LAST_YEAR}"

_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def most_of(setting: str) -> int:
    """Return the largest number that is of use as this setting."""
    return LONGEST.get(setting.rpartition("_")[2], MOST)


def least_of(setting: str) -> float:
    """Return the smallest number that is of use as this setting; 0: any above it."""
    return LEAST.get(setting, 0)


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


def read_span(text: str) -> timedelta | None:
    """Return a span such as 30m, 6h or 2d; None where the text is none."""
    span = _SPAN.fullmatch(text)
    return None if span is None else timedelta(**{_UNITS[span[2]]: int(span[1])})


def iso(moment: datetime | None) -> str | None:
    """Return the time as REST, the command line and notifications write it: in UTC, ISO 8601 with Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
