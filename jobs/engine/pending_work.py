"""What there is to do, read in one statement: all that an idle worker asks of the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from jobs.conf import lease_seconds
from jobs.engine import dialects
from jobs.engine.dialects.claim_parameters import Range, firm_ranges
from jobs.engine.limit_sql import NOT_CLOSED, any_limit_sql, claim_filter
from jobs.engine.table_statistics import pages_sql
from jobs.engine.transactions import fetch, fetch_pipelined, reading
from jobs.states import Priority

# A little more than the longest pause of an idle claiming loop.
RECENT_SECONDS = 1.65
# The rescue guard relies on the answer being hardly older than a query.
RECENT_PER_LEASE = 0.125


class PendingWork(NamedTuple):
    """Whether there is something to claim, and something for each maintenance task.

    `waiting`: jobs to admit. `expiring`: pending jobs past `expires_at`. `limited`: any limit
    exists. `open_breakers`: a circuit breaker is not closed. `dead_workers`: a worker's lease has
    ended. `due_schedules`: a schedule is due. `fan_ins`: a fan-in has not fired, or a batch is not
    completed. `deltas`: counters are to be folded. `schedule_runs`: a run of a schedule is
    unfinished. `pages`: how many the table of jobs has. `database_time`: when all of this was read.
    """

    claimable: bool
    waiting: bool
    expiring: bool
    limited: bool
    open_breakers: bool
    dead_workers: bool
    due_schedules: bool
    fan_ins: bool
    deltas: bool
    schedule_runs: bool
    pages: int
    database_time: datetime | None


def read_pending_work(
    categories: Collection[str] = (), job_types: Collection[str] = (), *, claims: bool = True
) -> PendingWork:
    """Return the pending work for these categories and types; none means all.

    Without `claims`, `claimable` is not read, which takes long beside many dead rows. No
    transaction may be open.
    """
    dialect = dialects.current()
    wanted = claim_filter(categories, job_types)
    ranges: list[Range] = []
    for priority in Priority if claims else ():
        ranges += firm_ranges(priority.value, 0, 0)
    alone = dialect.pending_work_sql(ranges, wanted, _columns())
    if alone is not None:
        return PendingWork(*fetch_pipelined(*alone)[0])

    def read() -> PendingWork:
        has_work = bool(ranges) and dialect.firms_with_work(ranges, wanted, 1) is not None
        ((*answers, pages, now),) = fetch(f"SELECT {', '.join(_columns())}", [])
        return PendingWork._make([has_work, *map(bool, answers), pages, dialect.read_time(now)])

    return reading(read)


def _columns() -> list[str]:
    """Return the SQL of all fields but `claimable`, in their order."""
    now = dialects.current().now_sql()
    return [
        "EXISTS (SELECT 1 FROM jobs_jobqueue q WHERE q.waiting)",
        (
            "EXISTS (SELECT 1 FROM jobs_jobqueue q WHERE q.completed_at IS NULL"
            f" AND q.expires_at <= {now} AND q.status = 'pending')"
        ),
        any_limit_sql(),
        f"EXISTS (SELECT 1 FROM jobs_circuitbreaker b WHERE {NOT_CLOSED})",
        (
            "EXISTS (SELECT 1 FROM jobs_worker w"
            f" WHERE w.dead_at IS NOT NULL OR w.lease_expires_at < {now})"
        ),
        f"EXISTS (SELECT 1 FROM jobs_schedule s WHERE s.enabled AND s.next_run_at <= {now})",
        (
            "(EXISTS (SELECT 1 FROM jobs_fanin f WHERE f.fired_at IS NULL)"
            " OR EXISTS (SELECT 1 FROM jobs_batch b WHERE b.completed_at IS NULL))"
        ),
        "EXISTS (SELECT 1 FROM jobs_jobminutedelta)",
        "EXISTS (SELECT 1 FROM jobs_schedulerun r WHERE r.finished_at IS NULL)",
        pages_sql(),
        now,
    ]


class PendingWorkReader:
    """Reads pending work for a worker's claiming loop and maintenance; keeps the last answer."""

    def __init__(self, categories: Collection[str] = (), job_types: Collection[str] = ()) -> None:
        self._categories = categories
        self._job_types = job_types
        self._lock = threading.Lock()
        self._last: tuple[float, PendingWork] | None = None

    def read(self, *, claims: bool = True) -> PendingWork:
        """Ask the database; without `claims`, do not ask whether there is something to claim.

        Raises:
            DatabaseError: it could not be asked.
        """
        asked_at = time.monotonic()
        pending = read_pending_work(self._categories, self._job_types, claims=claims)
        with self._lock:
            self._last = asked_at, pending
        return pending

    def for_maintenance(self) -> PendingWork:
        """Return a recent answer, else read without `claims`.

        Raises:
            DatabaseError: it could not be asked.
        """
        with self._lock:
            last = self._last
        recent = min(RECENT_SECONDS, RECENT_PER_LEASE * lease_seconds())
        if last is not None and time.monotonic() - last[0] < recent:
            return last[1]
        return self.read(claims=False)
