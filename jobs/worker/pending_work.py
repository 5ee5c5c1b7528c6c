"""Keeps the outlook of one worker, which its claiming loop and its chores share."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from jobs.conf import lease_seconds
from jobs.engine.pending_work import Outlook, look

# A little more than the claiming loop lets pass between two looks while it is idle.
RECENT_SECONDS = 1.65
# And no more than a rescuer may be wrong about when the database last answered.
RECENT_PER_LEASE = 0.125


class Lookout:
    """Looks, and remembers what it saw."""

    def __init__(self, categories: Collection[str] = (), job_types: Collection[str] = ()) -> None:
        self._categories = categories
        self._job_types = job_types
        self._lock = threading.Lock()
        self._seen: tuple[float, Outlook] | None = None

    def look(self) -> Outlook:
        """Ask the database.

        Raises:
            DatabaseError: it could not be asked.
        """
        return self._look(claims=True)

    def for_chores(self) -> Outlook:
        """Return what was seen a moment ago; else ask for all but what there is to claim.

        Raises:
            DatabaseError: it could not be asked.
        """
        with self._lock:
            seen = self._seen
        recent = min(RECENT_SECONDS, RECENT_PER_LEASE * lease_seconds())
        if seen is not None and time.monotonic() - seen[0] < recent:
            return seen[1]
        return self._look(claims=False)

    def _look(self, *, claims: bool) -> Outlook:
        begun = time.monotonic()
        outlook = look(self._categories, self._job_types, claims=claims)
        with self._lock:
            self._seen = begun, outlook
        return outlook
