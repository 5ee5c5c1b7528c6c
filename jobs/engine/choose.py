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
    """What is left while one firm's jobs are chosen: room, tokens by kind, slots by lock key."""

    room: int
    buckets: Mapping[Kind, Sequence[Bucket]]
    slots_taken: Counter[str] = field(default_factory=Counter)
    # Keys whose best candidate found no slot: no other group of the key may overtake it.
    blocked_keys: set[str] = field(default_factory=set)

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
        """Reserve what the candidate needs. False: something is missing.

        Tokens too few for it are left for it: no later candidate may take them.
        """
        key = candidate.group.lock_key
        if key and self.slots_left(candidate) <= 0:
            self.blocked_keys.add(key)
            return False
        buckets = self.buckets_of(candidate)
        lacking = [one for one in buckets if not one.has_for(candidate.limit_units)]
        for bucket in lacking:
            bucket.available = 0.0
        if lacking or self.room <= 0:
            return False
        self.room -= 1
        self.slots_taken[key] += 1
        for bucket in buckets:
            bucket.choose(candidate.limit_units)
        return True

    def slots_left(self, candidate: Candidate) -> int:
        """Return how many slots of the candidate's lock key may still be taken."""
        key = candidate.group.lock_key
        return 0 if key in self.blocked_keys else candidate.free_slots - self.slots_taken[key]


def choose(candidates: Sequence[Candidate], limits: Limits) -> list[Candidate]:
    """Merge the groups in order of admission and take what fits."""
    chosen: list[Candidate] = []
    groups_of_key = Counter(candidate.group.lock_key for candidate in candidates)
    groups = [_jobs_of_group(one, limits, groups_of_key[one.group.lock_key]) for one in candidates]
    for candidate in heapq.merge(*groups, key=attrgetter("order")):
        if limits.room <= 0:
            break
        if limits.take(candidate):
            chosen.append(candidate)
    return chosen


def _jobs_of_group(candidate: Candidate, limits: Limits, groups_of_key: int) -> Iterator[Candidate]:
    """Return the candidate, then those after it in its group, read when it has been considered.

    If other groups share its key, one more is read than can be admitted: the one that the others
    must not overtake.
    """
    yield candidate
    key = candidate.group.lock_key
    wanted = limits.left(candidate)
    if key and groups_of_key > 1 and key not in limits.blocked_keys:
        wanted += 1
    if wanted > 0:
        yield from followers(candidate, wanted)
