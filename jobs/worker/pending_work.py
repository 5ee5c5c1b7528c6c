"""What one worker last read of pending work, shared by its claiming loop and its maintenance."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from jobs.conf import lease_seconds
from jobs.engine.pending_work import PendingWork, read_pending_work

# A little more than the longest pause of an idle claiming loop.
RECENT_SECONDS = 1.65
# The rescue guard relies on the answer being hardly older than a query.
RECENT_PER_LEASE = 0.125


class PendingWorkReader:
    """Reads pending work, and remembers the last answer."""

    def __init__(self, categories: Collection[str] = (), job_types: Collection[str] = ()) -> None:
        self._categories = categories
        self._job_types = job_types
        self._lock = threading.Lock()
        self._last: tuple[float, PendingWork] | None = None

    def read(self, *, claims: bool = True) -> PendingWork:
        """Ask the database; without `claims`, not whether there is something to claim.

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
