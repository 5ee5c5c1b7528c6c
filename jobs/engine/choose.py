"""Chooses which candidates fit within the limits: of one firm, in the order of admission.

The tokens of rates over all firms are shared out between the firms whose jobs wait for them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from jobs.engine.candidates import Candidate, Kind, followers
from jobs.engine.token_bucket import Bucket
from jobs.states import CountedBy

# The same firm comes first for as long as it takes to refill the tokens of so many largest jobs.
JOBS_FIRST = 2


@dataclass
class Limits:
    """The capacity left while one firm's jobs are chosen: room, tokens by kind, slots by lock."""

    room: int
    buckets: Mapping[Kind, Sequence[Bucket]]
    slots_taken: Counter[tuple[int, str]] = field(default_factory=Counter)
    # Locks whose best candidate found no slot: no other group with the lock may overtake it.
    blocked_locks: set[tuple[int, str]] = field(default_factory=set)

    def buckets_of(self, candidate: Candidate) -> Sequence[Bucket]:
        """Return the buckets that count the candidate."""
        return self.buckets.get(candidate.kind, ())

    def left(self, candidate: Candidate) -> int:
        """Return how many jobs of the candidate's group may be chosen at most."""
        left = self.room
        for bucket in self.buckets_of(candidate):
            left = min(left, int(bucket.available))
        return min(left, self.slots_left(candidate)) if candidate.group.lock_key else left

    def take(self, candidate: Candidate) -> bool:
        """Reserve what the candidate needs; return False if something is missing.

        If a bucket has too few tokens, they are saved for it: no later candidate may take them.
        """
        if candidate.group.lock_key and self.slots_left(candidate) <= 0:
            self.blocked_locks.add(candidate.lock)
            return False
        buckets = self.buckets_of(candidate)
        lacking = [one for one in buckets if not one.has_for(candidate.limit_units)]
        for bucket in lacking:
            bucket.available = 0.0
        if lacking or self.room <= 0:
            return False
        self.room -= 1
        self.slots_taken[candidate.lock] += 1
        for bucket in buckets:
            bucket.choose(candidate.limit_units)
        return True

    def slots_left(self, candidate: Candidate) -> int:
        """Return how many slots of the candidate's lock key may still be taken."""
        lock = candidate.lock
        return 0 if lock in self.blocked_locks else candidate.free_slots - self.slots_taken[lock]


def choose(candidates: Sequence[Candidate], limits: Limits) -> list[Candidate]:
    """Merge the groups in order of admission and take what fits."""
    chosen: list[Candidate] = []
    groups_of_lock = Counter(candidate.lock for candidate in candidates)
    groups = [_jobs_of_group(one, limits, groups_of_lock[one.lock]) for one in candidates]
    for candidate in heapq.merge(*groups, key=attrgetter("order")):
        if limits.room <= 0:
            break
        if limits.take(candidate):
            chosen.append(candidate)
    return chosen


def _jobs_of_group(
    candidate: Candidate, limits: Limits, groups_of_lock: int
) -> Iterator[Candidate]:
    """Yield the candidate, then the jobs after it in its group, which are read only when needed.

    If other groups share its lock, one job more is read than can be admitted, because the jobs of
    the other groups must not overtake that one.
    """
    yield candidate
    wanted = limits.left(candidate)
    is_shared = candidate.group.lock_key and groups_of_lock > 1
    if is_shared and candidate.lock not in limits.blocked_locks:
        wanted += 1
    if wanted > 0:
        yield from followers(candidate, wanted)


class FirmShares:
    """What each firm of one sweep may take of a bucket of all firms: an equal part, or one job.

    The firms take turns at coming first, by the database's time. The tokens that the first firm's
    next job needs are left to it until it starts; otherwise jobs of few units would keep a job of
    many units waiting for ever.
    """

    def __init__(self, candidates: Mapping[int, Iterable[Candidate]]) -> None:
        # By type and firm, the units of the first job that waits for a rate.
        self._units: dict[str, dict[int, int]] = {}
        for firm_id in sorted(candidates):
            for candidate in sorted(candidates[firm_id], key=lambda one: one.order):
                if candidate.rated:
                    of_type = self._units.setdefault(candidate.group.job_type, {})
                    of_type.setdefault(firm_id, candidate.limit_units)
        self._left = {job_type: set(firms) for job_type, firms in self._units.items()}
        self._first: dict[str, int | None] = {}

    def apportion(self, buckets: Iterable[Bucket], firm_id: int) -> None:
        """Limit the `available` tokens of each bucket of all firms to the firm's share."""
        for bucket in buckets:
            if bucket.key.counted_by == CountedBy.ALL_FIRMS:
                bucket.available = self._share(bucket, firm_id)

    def note(self, buckets: Iterable[Bucket], firm_id: int) -> None:
        """Note that the firm has had its share."""
        for bucket in buckets:
            if bucket.key.counted_by == CountedBy.ALL_FIRMS:
                job_type = bucket.key.job_type
                self._left[job_type].discard(firm_id)
                if bucket.taken and self._first[job_type] == firm_id:
                    self._first[job_type] = None

    def _share(self, bucket: Bucket, firm_id: int) -> float:
        job_type = bucket.key.job_type
        units = self._units[job_type]
        if job_type not in self._first:
            self._first[job_type] = self._first_firm(bucket)
        first = self._first[job_type]
        saved = 0 if first is None or first == firm_id else bucket.rate.units(units[first])
        equal_part = bucket.tokens / max(len(self._left[job_type]), 1)
        one_job = bucket.rate.units(units[firm_id])
        return max(min(bucket.tokens - saved, max(equal_part, one_job)), 0.0)

    def _first_firm(self, bucket: Bucket) -> int:
        units = self._units[bucket.key.job_type]
        most = max(bucket.rate.units(one) for one in units.values())
        turn = bucket.refilled_at.timestamp() * bucket.rate.per_second / (JOBS_FIRST * most)
        return sorted(units)[int(turn) % len(units)]
