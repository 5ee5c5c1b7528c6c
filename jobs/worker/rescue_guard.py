"""When a lease that looks over may be believed to be over."""

from __future__ import annotations

import time
from datetime import datetime

from jobs.conf import lease_seconds

# Workers that report four times per lease outlive a shorter gap, slow reports included.
STANDSTILL_PER_LEASE = 0.5


class Patience:
    """Gives the living a whole lease to report, whenever the database kept them from it.

    After an outage, after it stood still, and after its clock jumped ahead, every lease looks over.
    """

    def __init__(self) -> None:
        self._needed_until = 0.0
        self._heard_at: float | None = None
        self._told: tuple[float, datetime] | None = None

    @property
    def needed(self) -> bool:
        """Whether nobody may be taken to be dead yet."""
        return time.monotonic() < self._needed_until

    def begin(self) -> None:
        """Be patient from now on, for one lease."""
        self._needed_until = time.monotonic() + lease_seconds()

    def hear(self, database_time: datetime | None = None) -> None:
        """Note that the database answers, and what time it says it is; call it often."""
        now = time.monotonic()
        gap = 0.0 if self._heard_at is None else now - self._heard_at
        self._heard_at = now
        if database_time is not None:
            if self._told is not None:
                told_at, said = self._told
                jump = (database_time - said).total_seconds() - (now - told_at)
                gap = max(gap, jump)
            self._told = now, database_time
        if gap > STANDSTILL_PER_LEASE * lease_seconds():
            self.begin()
