"""Recent counts of all firms' live jobs, for a page that is loaded every few seconds.

Counting reads every live row. If there are many, the last count is returned again while a thread
makes the next one, so that only the first caller waits.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace

from django.db import DatabaseError, connection

from jobs.queries.held_back import limits_in_force
from jobs.queries.live import Group, LiveJobs, live_jobs
from tenants.scope import all_firms, require_scope

_log = logging.getLogger("jobs")

# Fewer jobs are counted anew each time, which takes some tens of milliseconds.
KEPT_FROM = 50_000
FRESH_SECONDS = 5.0
# An older count is not returned: the caller waits for a new one.
STALE_SECONDS = 60.0
THREAD = "recent-count"


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
