"""Lets waiting jobs through: within their firm's cap and their type's rate, with a slot if keyed.

Called with what a settle, rescue or release has freed, right after a keyed enqueue commits, and by
a sweep over all that waits, which is the truth. Whatever is let through is written in the
transaction that holds the rows of the limits it passed, always taken in this order: the firm, its
buckets by type, slots.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from uuid import UUID

from django.db import DatabaseError, connection

from jobs.engine import dialects
from jobs.engine.candidates import Q_KEY, Head, due_sql, heads_after, heads_near, heads_of_keys
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import COUNTED
from jobs.engine.locks import take_slot
from jobs.engine.released_capacity import ReleasedCapacity, WaitingGroup
from jobs.engine.token_bucket import close_bucket, open_bucket
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.states import Priority

BATCH = 500
# Longer than any of the engine's own transactions holds a limit's row.
LOCK_WAIT_MILLISECONDS = 100
FIRST = WaitingGroup(0, "", "")


@dataclass
class Sweep:
    """Where a worker's sweep goes on: in turn every strand comes first."""

    place: WaitingGroup = FIRST

    def step(self) -> int:
        """Look over the next strands and let through what can be; return how many jobs."""
        heads, last = reading(lambda: heads_after(self.place))
        self.place = last or FIRST
        return _let_through(heads)


def admit(released_capacity: ReleasedCapacity) -> int:
    """Let the next jobs have what was freed; return how many became ready."""
    if not released_capacity:
        return 0
    return _let_through(reading(lambda: _heads_for(released_capacity)))


def sweep() -> int:
    """Let through whatever can be, all strands once; return how many jobs became ready."""
    line = Sweep()
    admitted = line.step()
    while line.place != FIRST:
        admitted += line.step()
    return admitted


def _heads_for(released_capacity: ReleasedCapacity) -> list[Head]:
    """Return who may have it: the room of a capped firm belongs to all its strands."""
    of_keys = heads_of_keys(released_capacity.keys)
    return of_keys + heads_near(
        released_capacity.groups | {head.strand for head in of_keys if head.capped}
    )


def _let_through(heads: Iterable[Head]) -> int:
    by_firm: dict[int, dict[WaitingGroup, Head]] = defaultdict(dict)
    for head in heads:
        by_firm[head.strand.firm_id][head.strand] = head
    return sum(_of_firm(firm_id, list(by_firm[firm_id].values())) for firm_id in sorted(by_firm))


def _of_firm(firm_id: int, heads: Sequence[Head]) -> int:
    """Admit one firm's, or leave it to the sweep while somebody else holds what that takes.

    Somebody's open transaction may hold it for long, and an enqueue that admits must not wait.
    """
    if connection.in_atomic_block:
        return in_transaction(lambda: _admit(firm_id, heads))
    dialect = dialects.current()

    def work() -> int:
        dialect.give_up_on_locks_after(LOCK_WAIT_MILLISECONDS)
        try:
            return _admit(firm_id, heads)
        except DatabaseError as error:
            if dialect.gave_up(error):
                raise _HeldElsewhere from error
            raise

    try:
        return in_transaction(work)
    except _HeldElsewhere:
        return 0


class _HeldElsewhere(Exception):
    """Another transaction holds a limit's row and does not end."""


def _admit(firm_id: int, heads: Sequence[Head]) -> int:
    """Let through the best of one firm's heads and of those behind them, within every limit."""
    room = _room(firm_id) if any(head.capped for head in heads) else BATCH
    if room <= 0:
        return 0
    rated = sorted({head.strand.job_type for head in heads if head.rated})
    opened = {job_type: open_bucket(firm_id, job_type) for job_type in rated}
    buckets = {job_type: bucket for job_type, bucket in opened.items() if bucket is not None}
    limits = _Limits(room, {job_type: bucket.starts for job_type, bucket in buckets.items()})
    chosen = _with_slots(_lock(_choose(heads, limits)))
    admitted = _make_ready(chosen)
    taken = Counter(head.strand.job_type for head in chosen)
    for job_type, bucket in buckets.items():
        close_bucket(bucket, taken[job_type])
    return admitted


def _room(firm_id: int) -> int:
    """Lock the firm's limit and return how many more of its jobs may be let through now.

    Counted in a statement of its own, which sees what the last holder of the lock has let through.
    """
    dialect = dialects.current()
    firms = fetch(
        f"SELECT running_cap FROM tenants_firm WHERE id = %s {dialect.for_no_key_update}", [firm_id]
    )
    if not firms or firms[0][0] is None:
        return BATCH
    ((taken,),) = fetch(
        f"SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = %s", [firm_id]
    )
    return min(int(firms[0][0]) - int(taken), BATCH)


@dataclass
class _Limits:
    """What is left while one firm's jobs are chosen: room, tokens by type, slots by key."""

    room: int
    tokens: dict[str, int]
    slots: Counter[str] = field(default_factory=Counter)
    # Keys whose first in line waits for a slot: nobody overtakes it.
    closed: set[str] = field(default_factory=set)

    def left(self, head: Head) -> int:
        """Return how many jobs of the head's strand still fit."""
        left = min(self.room, self.tokens.get(head.strand.job_type, BATCH))
        if head.strand.lock_key:
            left = min(left, self._slots_left(head))
        return left

    def close(self, head: Head) -> None:
        """Note a head that does not fit: where it is for want of a slot, its key's line stands."""
        if head.strand.lock_key and self._slots_left(head) <= 0:
            self.closed.add(head.strand.lock_key)

    def take(self, head: Head) -> None:
        """Let the head have its share."""
        self.room -= 1
        self.slots[head.strand.lock_key] += 1
        if head.strand.job_type in self.tokens:
            self.tokens[head.strand.job_type] -= 1

    def _slots_left(self, head: Head) -> int:
        if head.strand.lock_key in self.closed:
            return 0
        return head.free_slots - self.slots[head.strand.lock_key]


def _choose(heads: Sequence[Head], limits: _Limits) -> list[Head]:
    """Merge the strands in order and take what fits."""
    chosen: list[Head] = []
    strands = Counter(head.strand.lock_key for head in heads)
    lines = [_line(head, limits, alone=strands[head.strand.lock_key] == 1) for head in heads]
    for head in heapq.merge(*lines, key=attrgetter("order")):
        if limits.room <= 0:
            break
        if limits.left(head) > 0:
            limits.take(head)
            chosen.append(head)
        else:
            limits.close(head)
    return chosen


def _line(head: Head, limits: _Limits, *, alone: bool) -> Iterator[Head]:
    """Return the head and those of its strand behind it, which are read when it was chosen.

    Where the strand is not `alone` on its key, one more than can be let through comes along: the
    one that the others of the key must not overtake.
    """
    yield head
    wanted = limits.left(head)
    if head.strand.lock_key and not alone and head.strand.lock_key not in limits.closed:
        wanted += 1
    if wanted > 0:
        yield from _behind(head, wanted)


def _behind(head: Head, wanted: int) -> Iterator[Head]:
    dialect = dialects.current()
    strand = head.strand
    for priority in range(head.priority, max(Priority) + 1):
        rows = fetch(
            f"""
            SELECT q.job_id, q.scheduled_at FROM jobs_jobqueue q
            WHERE q.waiting AND q.firm_id = %s AND {Q_KEY} = %s
              AND q.job_type = %s AND q.priority = %s AND {due_sql("q")}
            ORDER BY q.scheduled_at, q.job_id LIMIT %s
            """,
            # One more than wanted: the head itself comes first.
            [strand.firm_id, strand.lock_key, strand.job_type, priority, wanted + 1],
        )
        for job_id, scheduled_at in rows:
            behind = replace(
                head,
                job_id=dialect.read_uuid(job_id),
                priority=priority,
                scheduled_at=dialect.read_time(scheduled_at),  # type: ignore[arg-type]  # never null
            )
            if behind.job_id != head.job_id:
                wanted -= 1
                yield behind
        if wanted <= 0:
            return


def _lock(chosen: Sequence[Head]) -> list[Head]:
    """Return those that still wait, their rows locked; one that somebody else changes is left."""
    if not chosen:
        return []
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"id": Column.UUID}, [(head.job_id,) for head in chosen])
    found = fetch(
        f"""
        SELECT q.job_id FROM jobs_jobqueue q
        WHERE q.job_id IN (SELECT r.id FROM {rows}) AND q.waiting AND q.status = 'pending'
        {dialect.skip_locked}
        """,
        params,
    )
    locked = {dialect.read_uuid(job_id) for (job_id,) in found}
    return [head for head in chosen if head.job_id in locked]


def _with_slots(chosen: Sequence[Head]) -> list[Head]:
    """Take a slot for each keyed job; return those that need none or got one."""
    keyed = sorted((head for head in chosen if head.strand.lock_key), key=_slot_order)
    refused = {
        head.job_id
        for head in keyed
        if not take_slot(head.strand.firm_id, head.strand.lock_key, head.lock_limit, head.job_id)
    }
    return [head for head in chosen if head.job_id not in refused]


def _slot_order(head: Head) -> tuple[str, tuple[int, datetime, UUID]]:
    return head.strand.lock_key, head.order


def _make_ready(chosen: Sequence[Head]) -> int:
    if not chosen:
        return 0
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"id": Column.UUID, "counted": Column.BOOLEAN},
        sorted((head.job_id, head.capped or head.rated) for head in chosen),
    )
    return run(
        f"""
        UPDATE jobs_jobqueue AS j
        SET ready = true, waiting = false, admitted = r.counted, updated_at = {dialect.now_sql()}
        FROM {rows} WHERE j.job_id = r.id AND j.waiting
        """,
        params,
    )
