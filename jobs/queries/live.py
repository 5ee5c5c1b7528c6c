"""Counts of the live jobs in scope, in one read of their rows; those of all firms may be recent ones.

The rows themselves are read, because no index tells a claimed job from a pending one. If there are
many, a page that is loaded every few seconds gets the last count again while a thread makes the next
one, so that only the first caller waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple

from django.db import DatabaseError, connection

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch_in_scope
from jobs.queries.held_back import JobFacts, LimitsInForce, limits_in_force
from jobs.queries.why_waiting import WaitCode
from tenants.scope import all_firms, require_scope

Group = Literal["category", "firm_id"]
GROUPS: tuple[Group, ...] = ("category", "firm_id")

# SQL of the facts that are not columns of a job's row.
_FACTS = {
    "limit_key": "COALESCE(q.limit_key, '')",
    "waits_for_lock": "(q.waiting AND q.lock_key IS NOT NULL)",
}
_DUE = "q.status = 'pending' AND q.scheduled_at <= %s"

_log = logging.getLogger("jobs")

# Fewer jobs are counted anew each time, which takes some tens of milliseconds.
KEPT_FROM = 50_000
FRESH_SECONDS = 5.0
# An older count is not returned: the caller waits for a new one.
STALE_SECONDS = 60.0
THREAD = "recent-count"


class LiveGroup(NamedTuple):
    """Live jobs of one status that the limits treat alike; `due` counts those that are due.

    If no limit in force names categories or firms, jobs are counted once by category and once by
    firm; the other one is None then.
    """

    category: str | None
    firm_id: int | None
    status: str
    jobs: int
    due: int
    due_since: datetime | None
    held_back: WaitCode | None


@dataclass(frozen=True)
class LiveJobs:
    """The pending, claimed and processing jobs in scope, and the limits in force."""

    counted_at: datetime
    limits: LimitsInForce
    groups: list[LiveGroup]

    @property
    def jobs(self) -> int:
        """How many live jobs there are."""
        # Where categories and firms are counted apart, every job is in two groups.
        return sum(group.jobs for group in self.groups if group.category is not None)


def live_jobs(*by: Group) -> LiveJobs:
    """Count the live jobs in scope; `by` names what they are counted by, beside the category."""
    limits = limits_in_force()
    wanted = [name for name in GROUPS if name in {"category", *by}]
    return LiveJobs(limits.now, limits, list(_groups(limits, wanted)))


def _groups(limits: LimitsInForce, wanted: Collection[Group]) -> Iterator[LiveGroup]:
    # Fewer columns mean fewer groups: the type, for example, is read only if a limit names types.
    names = sorted(limits.columns)
    columns = [*wanted, *(name for name in names if name not in wanted)]
    apart = limits.columns.isdisjoint(GROUPS)
    read_time = dialects.current().read_time
    reasons: dict[tuple[Any, ...], WaitCode | None] = {}
    for *facts, status, jobs, due, due_since in _rows(limits.now, columns, wanted, apart=apart):
        row = dict(zip(columns, facts, strict=True))
        # Many groups are the same to the limits, so each reason is computed only once.
        key = tuple(row[name] for name in names)
        if key not in reasons:
            reasons[key] = limits.reason(JobFacts(**dict(zip(names, key, strict=True))))
        yield LiveGroup(
            row["category"],
            row.get("firm_id"),
            status,
            jobs,
            due,
            read_time(due_since),
            reasons[key] if due else None,
        )


def _rows(
    now: datetime, columns: list[str], wanted: Collection[Group], *, apart: bool
) -> Iterator[tuple[Any, ...]]:
    """Count the jobs, each of which is either ready or waiting.

    PostgreSQL combines the two indexes into one read in the order of the table, and counts by
    several groups in that pass.
    """
    dialect = dialects.current()
    read = {name: _FACTS.get(name, f"q.{name}") for name in columns}
    by = ", ".join([*read.values(), "q.status"])
    if apart and len(wanted) > 1 and dialect.combines_indexes:
        shared = [*(read[name] for name in columns if name not in wanted), "q.status"]
        sets = (", ".join([read[name], *shared]) for name in wanted)
        by = f"GROUPING SETS ({', '.join(f'({one})' for one in sets)})"
    firm_ids = require_scope("jobs").firm_ids
    mine = ""
    if firm_ids is not None:
        # The ids are in the text, so that the planner can estimate how many jobs the firms have.
        mine = f"AND q.firm_id IN ({', '.join(map(str, sorted(firm_ids))) or 'NULL'})"
    moment = dialect.value(Column.TIME, now)
    ready_or_waiting = ("(q.ready OR q.waiting)",)
    for live in ready_or_waiting if dialect.combines_indexes else ("q.ready", "q.waiting"):
        yield from fetch_in_scope(
            f"""
            SELECT {", ".join(read.values())}, q.status, count(*),
                count(*) FILTER (WHERE {_DUE}), min(q.scheduled_at) FILTER (WHERE {_DUE})
            FROM "jobs_jobqueue" q WHERE {live} {mine} GROUP BY {by}
            """,
            [moment, moment],
            prepared=False,
        )


class RecentCount:
    """The newest count by some groups; safe for threads."""

    def __init__(self, by: tuple[Group, ...]) -> None:
        self._by = by
        self._lock = threading.Lock()
        self._newest: LiveJobs | None = None
        self._made_at = 0.0
        self._counting = False

    def get(self) -> LiveJobs:
        """Return the newest count, with the limits in force now; count first if there is none."""
        with self._lock:
            age = time.monotonic() - self._made_at
            newest = self._newest if age <= STALE_SECONDS else None
            due = newest is not None and age > FRESH_SECONDS and not self._counting
            self._counting = self._counting or due
        if newest is None:
            return self._count()
        if due:
            threading.Thread(target=self._count_behind, name=THREAD, daemon=True).start()
        return replace(newest, limits=limits_in_force())

    def _count(self) -> LiveJobs:
        made_at = time.monotonic()
        counted = live_jobs(*self._by)
        with self._lock:
            self._newest = counted if counted.jobs >= KEPT_FROM else None
            self._made_at = made_at
        return counted

    def _count_behind(self) -> None:
        try:
            with all_firms("a recent count for platform staff"):
                self._count()
        except DatabaseError as error:
            _log.warning("live jobs were not counted: %s", type(error).__name__)
        finally:
            connection.close()
            with self._lock:
                self._counting = False


_counts: dict[tuple[Group, ...], RecentCount] = {}


def recent_live_jobs(*by: Group) -> LiveJobs:
    """Count the live jobs in scope; for all firms the count may be up to a minute old.

    The result's `counted_at` is the time of the count; its limits are those in force now.
    """
    if require_scope("jobs").firm_ids is not None:
        return live_jobs(*by)
    return _counts.setdefault(by, RecentCount(by)).get()
