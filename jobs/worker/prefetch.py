"""How many jobs to claim ahead, and the buffer in which claims wait for a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from jobs.engine.claim import Claim
from jobs.engine.transition import is_quarantined

LARGEST_BATCH = 100
# A batch should take about this long; slower jobs are handed over one by one.
BATCH_SECONDS = 0.01
# Slower jobs are not claimed ahead: they would wait here while another worker is idle.
PREFETCH_BELOW_SECONDS = 0.05
# Short jobs are claimed ahead up to this many, and again when half of them are gone.
LARGEST_PREFETCH = 1000
SMOOTHING = 0.2


class PrefetchPolicy:
    """Decides by a moving average of handler run times. Any thread may call it."""

    def __init__(self) -> None:
        self._average_seconds: float | None = None

    def observe(self, run_seconds: float) -> None:
        """Add one handler's run time to the average."""
        # Without a lock, concurrent calls may lose an observation, which does no harm.
        known = self._average_seconds
        self._average_seconds = (
            run_seconds if known is None else known + SMOOTHING * (run_seconds - known)
        )

    @property
    def batch_size(self) -> int:
        """How many jobs to hand to a thread at once."""
        if self._average_seconds is None:
            return 1
        return max(1, min(LARGEST_BATCH, int(BATCH_SECONDS / max(self._average_seconds, 1e-6))))

    def wanted(self, *, threads: int, free: int, buffered: int) -> int:
        """Return how many more jobs to claim.

        `free` of `threads` are idle; `buffered` claims wait for one.
        """
        average = self._average_seconds
        ahead = average is not None and average <= PREFETCH_BELOW_SECONDS
        target = free
        if ahead:
            target = max(threads, min(threads * self.batch_size * 2, LARGEST_PREFETCH))
        wanted = target - buffered
        # A claim of many costs hardly more than a claim of one.
        return wanted if wanted > 0 and (not ahead or wanted * 2 >= target) else 0


class PrefetchBuffer:
    """Claims in the order they came, quarantined jobs apart. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._ordinary: deque[Claim] = deque()
        self._quarantined: deque[Claim] = deque()

    def __len__(self) -> int:
        return len(self._ordinary) + len(self._quarantined)

    def __iter__(self) -> Iterator[Claim]:
        yield from self._ordinary
        yield from self._quarantined

    @property
    def ordinary(self) -> int:
        """The number of claims that are not quarantined."""
        return len(self._ordinary)

    @property
    def quarantined(self) -> int:
        """The number of quarantined claims."""
        return len(self._quarantined)

    def extend(self, claims: Iterable[Claim]) -> None:
        """Add claims at the end."""
        for claim in claims:
            (self._quarantined if is_quarantined(claim.deaths) else self._ordinary).append(claim)

    def put_back(self, claims: Sequence[Claim]) -> None:
        """Add ordinary claims at the front."""
        self._ordinary.extendleft(reversed(claims))

    def take(self, limit: int) -> list[Claim]:
        """Remove and return up to `limit` ordinary claims."""
        return [self._ordinary.popleft() for _ in range(min(limit, len(self._ordinary)))]

    def take_quarantined(self) -> Claim | None:
        """Remove and return the first quarantined claim."""
        return self._quarantined.popleft() if self._quarantined else None

    def clear(self) -> list[Claim]:
        """Remove and return all claims."""
        claims = list(self)
        self._ordinary.clear()
        self._quarantined.clear()
        return claims
