"""Admits waiting jobs: within their firm's cap and their type's rate, with a lock slot if keyed.

`admit` runs after a keyed enqueue commits, and with what settle, rescue and release have given
back. The sweep reads all waiting groups and finds what that missed. A job becomes ready in the
transaction that locks the limits it passed, always in this order: firm, token buckets, lock slots.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import attrgetter

from jobs.engine import dialects
from jobs.engine.candidates import (
    FIRST_GROUP,
    Candidate,
    candidates_after,
    candidates_of_firms,
    candidates_of_keys,
    followers,
)
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.limit_sql import COUNTED
from jobs.engine.locks import ReleasedCapacity, SlotRequest, WaitingGroup, take_job_slots
from jobs.engine.token_bucket import lock_bucket, store_bucket
from jobs.engine.transactions import (
    LockTimeout,
    fetch,
    in_transaction,
    reading,
    run,
)

BATCH = 500
# An enqueue of very many lock keys leaves the rest to the sweep.
MOST_PARTS = 10


@dataclass
class Sweep:
    """Reads all waiting groups in steps, again and again."""

    after: WaitingGroup = FIRST_GROUP

    def step(self) -> int:
        """Admit from the next groups; return the number of jobs admitted."""
        candidates, self.after = reading(lambda: candidates_after(self.after))
        return _admit(candidates)


def sweep() -> int:
    """Admit from all waiting groups once; return the number of jobs admitted."""
    steps = Sweep()
    admitted = steps.step()
    while steps.after != FIRST_GROUP:
        admitted += steps.step()
    return admitted


def admit(released: ReleasedCapacity) -> int:
    """Admit the next jobs for the released capacity; return the number of jobs admitted."""
    return _admit(reading(lambda: _candidates_for(released))) if released else 0


def _candidates_for(released: ReleasedCapacity) -> list[Candidate]:
    of_keys = candidates_of_keys(released.keys)
    # All groups of a firm share its cap.
    capped = {candidate.group for candidate in of_keys if candidate.capped}
    return of_keys + candidates_of_firms(released.groups | capped)


def _admit(candidates: Iterable[Candidate]) -> int:
    by_firm: dict[int, dict[WaitingGroup, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        by_firm[candidate.group.firm_id][candidate.group] = candidate
    return sum(
        _admit_of_firm(pk, part)
        for pk in sorted(by_firm)
        for part in islice(_parts(list(by_firm[pk].values())), MOST_PARTS)
    )


def _parts(candidates: list[Candidate]) -> Iterator[list[Candidate]]:
    """Split many candidates, each part to be admitted in a transaction of its own.

    The candidates of a key stay together, and so do all of a firm with a cap or a rate.
    """
    if len(candidates) > BATCH and not any(one.capped or one.rated for one in candidates):
        keys = groupby(sorted(candidates, key=_lock_key), key=_lock_key)
        candidates = []
        for _, of_key in keys:
            candidates += of_key
            if len(candidates) >= BATCH:
                yield candidates
                candidates = []
    if candidates:
        yield candidates


def _lock_key(candidate: Candidate) -> str:
    return candidate.group.lock_key


def _admit_of_firm(firm_id: int, candidates: Sequence[Candidate]) -> int:
    """Admit one firm's jobs, or none while another transaction locks one of its limits.

    That transaction may stay open for long, and an enqueue must not wait for it: the sweep retries.
    """
    try:
        return in_transaction(
            lambda: _admit_within_limits(firm_id, candidates),
            lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS,
        )
    except LockTimeout:
        return 0


def _admit_within_limits(firm_id: int, candidates: Sequence[Candidate]) -> int:
    room = _room(firm_id) if any(candidate.capped for candidate in candidates) else BATCH
    if room <= 0:
        return 0
    rated = sorted({candidate.group.job_type for candidate in candidates if candidate.rated})
    locked = [lock_bucket(firm_id, job_type) for job_type in rated]
    buckets = [bucket for bucket in locked if bucket is not None]
    limits = _Limits(room, {bucket.job_type: int(bucket.tokens) for bucket in buckets})
    chosen = _with_slots(_still_waiting(_choose(candidates, limits)))
    _make_ready(chosen)
    taken = Counter(candidate.group.job_type for candidate in chosen)
    for bucket in buckets:
        store_bucket(bucket, taken[bucket.job_type])
    return len(chosen)


def _room(firm_id: int) -> int:
    """Lock the firm's row and return how many more of its jobs may be admitted.

    They are counted by a second statement, which sees what the last holder of the lock admitted.
    """
    firms = fetch(
        "SELECT running_cap FROM tenants_firm WHERE id = %s"
        f" {dialects.current().for_no_key_update}",
        [firm_id],
    )
    if not firms or firms[0][0] is None:
        return BATCH
    ((counted,),) = fetch(
        f"SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = %s", [firm_id]
    )
    return min(int(firms[0][0]) - int(counted), BATCH)


@dataclass
class _Limits:
    """What is left while one firm's jobs are chosen: room, tokens by type, slots by key."""

    room: int
    tokens: dict[str, int]
    slots_taken: Counter[str] = field(default_factory=Counter)
    # Keys whose best candidate found no slot: no other group of the key may overtake it.
    blocked_keys: set[str] = field(default_factory=set)

    def left(self, candidate: Candidate) -> int:
        """Return how many jobs of the candidate's group may still be chosen."""
        left = min(self.room, self.tokens.get(candidate.group.job_type, BATCH))
        return min(left, self._slots_left(candidate)) if candidate.group.lock_key else left

    def take(self, candidate: Candidate) -> bool:
        """Reserve what the candidate needs. False: something is missing."""
        key, job_type = candidate.group.lock_key, candidate.group.job_type
        if self.left(candidate) <= 0:
            if key and self._slots_left(candidate) <= 0:
                self.blocked_keys.add(key)
            return False
        self.room -= 1
        self.slots_taken[key] += 1
        if job_type in self.tokens:
            self.tokens[job_type] -= 1
        return True

    def _slots_left(self, candidate: Candidate) -> int:
        key = candidate.group.lock_key
        return 0 if key in self.blocked_keys else candidate.free_slots - self.slots_taken[key]


def _choose(candidates: Sequence[Candidate], limits: _Limits) -> list[Candidate]:
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


def _jobs_of_group(
    candidate: Candidate, limits: _Limits, groups_of_key: int
) -> Iterator[Candidate]:
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


def _still_waiting(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Lock the rows of those that still wait and return them, without rows that others lock."""
    if not chosen:
        return []
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"id": Column.UUID}, [(one.job_id,) for one in chosen])
    found = fetch(
        f"""
        SELECT q.job_id FROM jobs_jobqueue q
        WHERE q.job_id IN (SELECT r.id FROM {rows}) AND q.waiting AND q.status = 'pending'
        {dialect.skip_locked}
        """,
        params,
    )
    locked = {dialect.read_uuid(job_id) for (job_id,) in found}
    return [candidate for candidate in chosen if candidate.job_id in locked]


def _with_slots(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Take a slot for each keyed job; return all but those that got none."""
    keyed = sorted(
        (candidate for candidate in chosen if candidate.group.lock_key),
        key=lambda candidate: (candidate.group.lock_key, candidate.order),
    )
    taken = take_job_slots(
        [SlotRequest(*one.group.key, one.lock_limit, one.job_id) for one in keyed]
    )
    return [one for one in chosen if not one.group.lock_key or one.job_id in taken]


def _make_ready(chosen: Sequence[Candidate]) -> None:
    if not chosen:
        return
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"id": Column.UUID, "counted": Column.BOOLEAN},
        sorted((candidate.job_id, candidate.capped or candidate.rated) for candidate in chosen),
    )
    run(
        f"""
        UPDATE jobs_jobqueue AS j
        SET ready = true, waiting = false, admitted = r.counted, updated_at = {dialect.now_sql()}
        FROM {rows} WHERE j.job_id = r.id AND j.waiting
        """,
        params,
    )
