"""When a lease that looks over may be believed to be over."""

from __future__ import annotations

import time
from datetime import datetime

from jobs.conf import lease_seconds

# Workers that report four times per lease outlive a shorter gap.
STANDSTILL_PER_LEASE = 0.75


class Patience:
    """Gives the living a whole lease to report, whenever the database kept them from it.

    After an outage, after it stood still, and after its clock jumped ahead, every lease looks over.
    """

    def __init__(self) -> None:
        self._needed_until = 0.0
        self._heard_at: tuple[float, datetime] | None = None

    @property
    def needed(self) -> bool:
        """Whether nobody may be taken to be dead yet."""
        return time.monotonic() < self._needed_until

    def begin(self) -> None:
        """Be patient from now on, for one lease."""
        self._needed_until = time.monotonic() + lease_seconds()

    def hear(self, database_time: datetime) -> None:
        """Note that the database answered, and what time it said it was; call it often."""
        now = time.monotonic()
        if self._heard_at is not None:
            heard, said = self._heard_at
            gap = max(now - heard, (database_time - said).total_seconds())
            if gap > STANDSTILL_PER_LEASE * lease_seconds():
                self.begin()
        self._heard_at = now, database_time
