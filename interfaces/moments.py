"""Times: the range that Python and both databases share, spans, and how times are written."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# Beyond these years, time zones and margins exceed the range of Python's and the databases' dates.
FIRST_YEAR = 1970
LAST_YEAR = 9000
# Fifty years, by the unit at the end of a setting's name: a time so far from now is still in range.
LONGEST = {"DAYS": 18_262, "HOURS": 438_288, "MINUTES": 26_297_280, "SECONDS": 1_577_836_800}
# The most for a setting that is not a time.
MOST = 1_000_000
# With less, no heartbeat would be in time for its lease, polling would use a whole processor, and
# an isolated process could not start.
LEAST = {"JOB_LEASE_SECONDS": 0.5, "JOB_POLL_SECONDS": 0.01, "JOB_ISOLATED_MEMORY_MB": 256}
YEARS = f"a year from {FIRST_YEAR} to {LAST_YEAR}"

_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def most_of(setting: str) -> int:
    """Return the largest allowed value of this setting."""
    return LONGEST.get(setting.rpartition("_")[2], MOST)


def least_of(setting: str) -> float:
    """Return the smallest allowed value of this setting; 0 means any value above 0."""
    return LEAST.get(setting, 0)


def is_in_range(moment: datetime) -> bool:
    """Say whether the time lies in one of these years."""
    return FIRST_YEAR <= moment.year <= LAST_YEAR


def earlier(moment: datetime, span: timedelta) -> datetime | None:
    """Return the time that lies this span before `moment`; None if that is out of range."""
    try:
        found = moment - span
    except OverflowError:
        return None
    return found if is_in_range(found) else None


def read_span(text: str) -> timedelta | None:
    """Return a span such as 30m, 6h or 2d; None if the text is no span."""
    span = _SPAN.fullmatch(text)
    return None if span is None else timedelta(**{_UNITS[span[2]]: int(span[1])})


def iso(moment: datetime | None) -> str | None:
    """Return the time as REST, the command line and notifications write it: in UTC, ISO 8601 with Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
