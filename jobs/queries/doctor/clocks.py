"""Whether this machine's clock and the database's agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.db import connection

from jobs.engine import dialects
from jobs.queries.doctor.base import Finding, fetch, graded
from jobs.queries.durations import in_words
from jobs.queries.filters import CLOCK_MARGIN

NOTICE_SECONDS = 2.0

WHY = (
    "Leases and due times use the database's clock, so no job runs twice or early. But ids begin "
    "with this machine's time, and lists and age filters use them."
)
MEND = "timedatectl set-ntp true  # on this machine and on the database's"


def check() -> Iterator[Finding]:
    """Compare the two clocks, allowing for half of the round trip."""
    dialect = dialects.current()
    connection.ensure_connection()
    asked = datetime.now(UTC)
    ((moment,),) = fetch(f"SELECT {dialect.live_now_sql()}")
    answered = datetime.now(UTC)
    skew = (dialect.read_time(moment) - (asked + (answered - asked) / 2)).total_seconds()
    what = "This machine's clock and the database's agree."
    if abs(skew) >= NOTICE_SECONDS:
        direction = "ahead of" if skew > 0 else "behind"
        what = f"The database's clock is {in_words(abs(skew))} {direction} this machine's."
    severe = abs(skew) > CLOCK_MARGIN.total_seconds()
    notice = abs(skew) >= NOTICE_SECONDS
    yield graded("clocks", what, WHY, MEND, problem=severe, notice=notice)
