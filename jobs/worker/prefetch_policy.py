"""How fast jobs are of late, and what follows: how many to claim, how many to hand over at once."""

from __future__ import annotations

LARGEST_CHUNK = 100
# A chunk should take about this long; jobs slower than that are handed over one by one.
CHUNK_SECONDS = 0.01
# Jobs slower than this are not claimed ahead: they would wait here while another worker is idle.
PREFETCH_BELOW_SECONDS = 0.05
# Short jobs are claimed ahead up to this many, and again when half of them are gone.
LARGEST_PREFETCH = 1000
SMOOTHING = 0.2


class Pace:
    """A moving average of how long handlers run. Any thread may add to it."""

    def __init__(self) -> None:
        self._average_seconds: float | None = None

    def learn(self, ran: float) -> None:
        """Take in how many seconds a handler ran."""
        # Two threads at once may forget what one of them learnt: no harm, and no lock.
        known = self._average_seconds
        self._average_seconds = ran if known is None else known + SMOOTHING * (ran - known)

    @property
    def chunk_size(self) -> int:
        """How many jobs to hand to a thread at once."""
        if self._average_seconds is None:
            return 1
        return max(1, min(LARGEST_CHUNK, int(CHUNK_SECONDS / max(self._average_seconds, 1e-6))))

    def wanted(self, *, seats: int, free: int, held: int) -> int:
        """Return how many more to claim for so many threads, of which `free` have nothing to do.

        `held` is how many claims wait already.
        """
        average = self._average_seconds
        ahead = average is not None and average <= PREFETCH_BELOW_SECONDS
        target = max(seats, min(seats * self.chunk_size * 2, LARGEST_PREFETCH)) if ahead else free
        wanted = target - held
        # A claim of many costs hardly more than a claim of one.
        return wanted if wanted > 0 and (not ahead or wanted * 2 >= target) else 0
