"""How many jobs to claim ahead, and the buffer in which claims wait for a thread.

Only short jobs are claimed ahead, as many as run within a moment. A claim that waits longer,
because the jobs before it are slow, goes back to the queue: other workers may be idle, and a pause,
a cancel or a more urgent job cannot reach a claim here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import ceil, inf
from operator import attrgetter

from jobs.engine.claim import Claim
from jobs.engine.transition import is_quarantined
from jobs.states import Priority

LARGEST_BATCH = 500
# A batch should take about this long; slower jobs, and those of types not seen yet, come one by one.
BATCH_SECONDS = 0.03
# Jobs are claimed ahead for this time of each thread; slow jobs only when a thread is free.
AHEAD_SECONDS = 0.1
SLOW_SECONDS = 0.05
LARGEST_PREFETCH = 4000
LARGEST_PREFETCH_BYTES = 8 * 2**20
# A claim that has waited this long, or will, is given back; claiming ahead then pauses.
LONGEST_WAIT_SECONDS = 0.5
PAUSE_SECONDS = 1.0
# Each short job costs the worker's own threads this much, which limits the handlers they serve.
OVERHEAD_SECONDS = 0.0001
SMOOTHING = 0.2
STEP = 1.1


class PrefetchPolicy:
    """Decides by the median run time of each type, and the moving average of all jobs.

    Concurrent calls may lose an observation, which does no harm.
    """

    def __init__(self) -> None:
        self._average_seconds: float | None = None
        self._average_bytes = 0.0
        self._seconds_of: dict[str, float] = {}
        # When a handler of the type last ended soon.
        self._short_end_of: dict[str, float] = {}
        self._paused_until = 0.0

    def observe(self, job_type: str, run_seconds: float, ended_at: float = 0.0) -> None:
        """Add the run time of a handler that ended at this monotonic time."""
        if run_seconds < SLOW_SECONDS:
            self._short_end_of[job_type] = ended_at
        # Estimates the median, because one job in a hundred takes a hundred times as long as the
        # others: it waits for the interpreter's lock while the worker's own threads hold it.
        known = self._seconds_of.get(job_type, run_seconds)
        self._seconds_of[job_type] = known * STEP if run_seconds > known else known / STEP
        average = self._average_seconds
        self._average_seconds = (
            run_seconds if average is None else average + SMOOTHING * (run_seconds - average)
        )

    def observe_running(self, job_type: str, began_at: float, now: float) -> None:
        """Note that a handler of this type began at `began_at` and still runs at `now` (monotonic).

        If others of its type have ended soon since then, it is an exception that tells nothing of
        the type.
        """
        seconds = now - began_at
        is_exception = self._short_end_of.get(job_type, -inf) > began_at
        if seconds > self._seconds_of.get(job_type, 0.0) and not is_exception:
            self._seconds_of[job_type] = seconds

    def observe_payloads(self, claims: Sequence[Claim]) -> None:
        """Note the size of these payloads; the largest average counts, and fades."""
        average = sum(len(claim.payload) for claim in claims) / len(claims)
        self._average_bytes = max(average, self._average_bytes * (1 - SMOOTHING))

    def pause(self, now: float) -> None:
        """Claim nothing ahead for a while, because claims had to be given back."""
        self._paused_until = now + PAUSE_SECONDS

    def seconds_of(self, claim: Claim) -> float | None:
        """Return how long its handler is expected to run; None before the first of its type ended."""
        return self._seconds_of.get(claim.job_type)

    @property
    def longest_seconds(self) -> float:
        """How long the handlers of the slowest type are expected to run; 0 before the first ended."""
        # A copy, because another thread may add a type in the meantime.
        return max(list(self._seconds_of.values()), default=0.0)

    def most_threads(self, claim: Claim) -> float:
        """Return how many threads may run jobs like this at the same time.

        Short jobs hardly wait for anything, so more threads would only compete for the interpreter.
        """
        seconds = self._seconds_of.get(claim.job_type)
        return _most_threads(seconds) if seconds is not None else inf

    def wanted(self, now: float, *, threads: int, free: int, buffered: int) -> int:
        """Return how many more jobs to claim.

        `free` of `threads` are idle; `buffered` claims wait for one.
        """
        average = self._average_seconds
        if average is None or average > SLOW_SECONDS or now < self._paused_until:
            return max(free - buffered, 0)
        average = max(average, 1e-6)
        ahead = int(min(threads, _most_threads(average)) * AHEAD_SECONDS / average)
        target = min(max(free, ahead), LARGEST_PREFETCH)
        if self._average_bytes:
            target = min(target, max(int(LARGEST_PREFETCH_BYTES / self._average_bytes), 1))
        wanted = target - buffered
        # A claim of many costs hardly more than a claim of one.
        return wanted if wanted > 0 and wanted * 2 >= target else 0


class PrefetchBuffer:
    """Claims by priority, then as they came; quarantined ones apart. Not safe for threads by itself."""

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

    @property
    def first(self) -> Claim:
        """The first ordinary claim; there must be one."""
        return self._ordinary[0]

    def extend(self, claims: Iterable[Claim]) -> None:
        """Add claims, all of one priority, behind those of the same."""
        before = self._ordinary[-1].priority if self._ordinary else -1
        for claim in claims:
            (self._quarantined if is_quarantined(claim.deaths) else self._ordinary).append(claim)
        if self._ordinary and self._ordinary[-1].priority < before:
            self._sort()

    def put_back(self, claims: Sequence[Claim]) -> None:
        """Add ordinary claims before those of the same priority."""
        before = self._ordinary[0].priority if self._ordinary else max(Priority)
        self._ordinary.extendleft(reversed(claims))
        if claims and claims[-1].priority > before:
            self._sort()

    def take_batch(self, policy: PrefetchPolicy, free: int) -> list[Claim]:
        """Remove and return the first ordinary claim, and those behind it that are short enough.

        They are at most the share of one of the `free` threads. A job on its last attempt comes
        alone: if the worker dies, it must not be counted because only its neighbor had started.
        """
        share = ceil(len(self._ordinary) / min(free, policy.most_threads(self._ordinary[0])))
        batch = [self._ordinary.popleft()]
        seconds = policy.seconds_of(batch[0])
        if seconds is None or is_last_attempt(batch[0]):
            return batch
        left = BATCH_SECONDS - seconds
        while self._ordinary and len(batch) < min(share, LARGEST_BATCH):
            following = self._ordinary[0]
            seconds = policy.seconds_of(following)
            if seconds is None or seconds > left or is_last_attempt(following):
                break
            left -= seconds
            batch.append(self._ordinary.popleft())
        return batch

    def take_quarantined(self) -> Claim | None:
        """Remove and return the first quarantined claim."""
        return self._quarantined.popleft() if self._quarantined else None

    def take_overdue(
        self, policy: PrefetchPolicy, now: float, threads: int, kept: int
    ) -> list[Claim]:
        """Remove and return the claims that have waited too long, or will.

        `kept` quarantined claims stay: a process is being started for each.
        """
        horizon = now - LONGEST_WAIT_SECONDS
        room = threads * LONGEST_WAIT_SECONDS
        if self._waits_shortly(policy, horizon, room):
            return []
        claims: deque[Claim] = deque()
        overdue: list[Claim] = []
        for claim in self._ordinary:
            late = claim.claimed_at < horizon or room < 0
            (overdue if late else claims).append(claim)
            room -= policy.seconds_of(claim) or 0.0
        self._ordinary = claims
        waiting = list(self._quarantined)
        overdue += [claim for claim in waiting[kept:] if claim.claimed_at < horizon]
        self._quarantined = deque(
            waiting[:kept] + [claim for claim in waiting[kept:] if claim.claimed_at >= horizon]
        )
        return overdue

    def _waits_shortly(self, policy: PrefetchPolicy, horizon: float, room: float) -> bool:
        """Say whether nothing can be overdue, as nearly always: asking each claim takes longer."""
        if self._quarantined or not self._ordinary:
            return not self._quarantined
        oldest = min(map(attrgetter("claimed_at"), self._ordinary))
        return oldest >= horizon and len(self._ordinary) * policy.longest_seconds <= room

    def clear(self) -> list[Claim]:
        """Remove and return all claims."""
        claims = list(self)
        self._ordinary.clear()
        self._quarantined.clear()
        return claims

    def _sort(self) -> None:
        self._ordinary = deque(sorted(self._ordinary, key=lambda claim: claim.priority))


def _most_threads(run_seconds: float) -> float:
    return max(run_seconds / OVERHEAD_SECONDS, 1)


def is_last_attempt(claim: Claim) -> bool:
    """Say whether the job has no attempt left after this one."""
    return claim.attempts >= claim.max_attempts
