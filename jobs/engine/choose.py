"""Chooses which of one firm's candidates fit within its limits, in the order of admission."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from jobs.engine.candidates import Candidate, Kind, followers
from jobs.engine.token_bucket import Bucket


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
