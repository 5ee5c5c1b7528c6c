"""Admits waiting jobs: within their firm's cap and their rates, with a lock slot if keyed.

`admit` runs after the commit of a keyed enqueue, and whenever settle, rescue or release gives
capacity back. The sweep reads all waiting groups and admits what `admit` missed. Only the sweep
shares out the tokens of rates over all firms, because only it sees every firm that waits for them.
A job becomes ready in the transaction that locks the limits it passes, always in this order: firm,
token buckets, lock slots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from random import Random

from jobs.engine import dialects
from jobs.engine.candidates import (
    FIRST_GROUP,
    Candidate,
    Kind,
    candidates_after,
    candidates_of_firms,
    candidates_of_keys,
    keys_in_waiting_firms,
)
from jobs.engine.choose import FirmShares, Limits, choose
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.limit_sql import COUNTED
from jobs.engine.locks import ReleasedCapacity, SlotRequest, WaitingGroup, take_job_slots
from jobs.engine.rates import BucketKey, FirmRates, Rate
from jobs.engine.token_bucket import lock_buckets, store_buckets
from jobs.engine.transactions import (
    LockTimeout,
    fetch,
    in_transaction,
    reading,
    run,
)
from jobs.states import CountedBy

BATCH = 500
# Of a firm's candidates at most this many parts are admitted at once; the sweep admits the rest.
MOST_PARTS = 10


@dataclass
class Sweep:
    """Reads all waiting groups in steps, again and again."""

    rng: Random = field(default_factory=Random)
    after: WaitingGroup = FIRST_GROUP
    # The number of steps of the last pass over all groups, and how many are left of this pass.
    _steps: int = 1
    _left: int = 1

    def step(self) -> int:
        """Admit from the next groups; return the number of jobs admitted."""
        if self.after == FIRST_GROUP:
            self._left, self._steps = self._steps, 0
        candidates, self.after = reading(lambda: _candidates_with_room(self.after))
        by_firm = _by_firm(candidates)
        # Firms are visited in random order, and any step may be the one that shares out the tokens
        # of all firms. Otherwise the same firms would always get scarce tokens, or scarce slots.
        firms = list(by_firm)
        if any(one.rated or one.lock_counted_by == CountedBy.ALL_FIRMS for one in candidates):
            self.rng.shuffle(firms)
        is_chosen = self._left == 1 or self.rng.random() * self._left < 1
        shares = FirmShares(by_firm) if is_chosen else None
        self._left, self._steps = max(self._left - 1, 1), self._steps + 1
        return _admit({pk: by_firm[pk] for pk in firms}, shares)


def sweep() -> int:
    """Admit from all waiting groups once; return the number of jobs admitted."""
    steps = Sweep()
    admitted = steps.step()
    while steps.after != FIRST_GROUP:
        admitted += steps.step()
    return admitted


def admit(released: ReleasedCapacity) -> int:
    """Admit the next jobs for the released capacity; return the number of jobs admitted."""
    if not released:
        return 0
    by_firm = _by_firm(reading(lambda: _candidates_for(released)))
    if released.keys_of_all_firms:
        # Firms take turns: the next one is that after the firm which gave back the slot.
        last = max(firm_id for firm_id, _ in released.keys_of_all_firms)
        by_firm = {pk: by_firm[pk] for pk in sorted(by_firm, key=lambda pk: (pk <= last, pk))}
    return _admit(by_firm)


def _candidates_for(released: ReleasedCapacity) -> list[Candidate]:
    shared = keys_in_waiting_firms(released.keys_of_all_firms)
    of_keys = candidates_of_keys(released.keys.union(shared))
    # All groups of a firm share its cap.
    capped = {candidate.group for candidate in of_keys if candidate.capped}
    return of_keys + candidates_of_firms(released.groups | capped)


def _candidates_with_room(after: WaitingGroup) -> tuple[list[Candidate], WaitingGroup]:
    """Return the candidates of the next groups, less those of firms whose cap leaves no room.

    A firm without room must not come first for the tokens of all firms, which would then be saved
    for it.
    """
    candidates, last = candidates_after(after)
    capped = {candidate.group.firm_id for candidate in candidates if candidate.capped}
    full = _full_firms(capped) if capped else set()
    return [one for one in candidates if one.group.firm_id not in full], last


def _full_firms(firm_ids: Iterable[int]) -> set[int]:
    rows, params = dialects.current().rows_sql(
        "r", {"id": Column.BIGINT}, [(firm_id,) for firm_id in sorted(firm_ids)]
    )
    found = fetch(
        f"""
        SELECT f.id FROM {rows} JOIN tenants_firm f ON f.id = r.id
        WHERE f.running_cap <= (
            SELECT count(*) FROM jobs_jobqueue q WHERE {COUNTED} AND q.firm_id = f.id)
        """,
        params,
    )
    return {firm_id for (firm_id,) in found}


def _by_firm(candidates: Iterable[Candidate]) -> dict[int, list[Candidate]]:
    by_firm: dict[int, dict[WaitingGroup, Candidate]] = defaultdict(dict)
    for candidate in candidates:
        by_firm[candidate.group.firm_id][candidate.group] = candidate
    return {pk: list(by_firm[pk].values()) for pk in sorted(by_firm)}


def _admit(by_firm: dict[int, list[Candidate]], shares: FirmShares | None = None) -> int:
    return sum(
        _admit_of_firm(pk, part, shares)
        for pk, candidates in by_firm.items()
        for part in islice(_parts(candidates), MOST_PARTS)
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


def _admit_of_firm(firm_id: int, candidates: Sequence[Candidate], shares: FirmShares | None) -> int:
    """Admit one firm's jobs, or none while another transaction locks one of its limits.

    That transaction may stay open for long, and an enqueue must not wait for it: the sweep retries.
    """
    try:
        return in_transaction(
            lambda: _admit_within_limits(firm_id, candidates, shares),
            lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS,
        )
    except LockTimeout:
        return 0


def _admit_within_limits(
    firm_id: int, candidates: Sequence[Candidate], shares: FirmShares | None
) -> int:
    room = _room(firm_id) if any(candidate.capped for candidate in candidates) else BATCH
    if room <= 0:
        return 0
    rates = _rates_by_kind(firm_id, candidates)
    if shares is None:
        candidates = [one for one in candidates if not _in_all_firms(rates.get(one.kind, ()))]
    buckets = lock_buckets(
        {key: rate for one in candidates for key, rate in rates.get(one.kind, {}).items()}
    )
    if shares is not None:
        shares.apportion(buckets.values(), firm_id)
    limits = Limits(
        room,
        {kind: [buckets[key] for key in keys if key in buckets] for kind, keys in rates.items()},
    )
    chosen = _with_slots(_still_waiting(choose(candidates, limits)))
    _make_ready(chosen)
    for candidate in chosen:
        for bucket in limits.buckets_of(candidate):
            bucket.take(candidate.limit_units)
    store_buckets(buckets.values())
    if shares is not None:
        shares.note(buckets.values(), firm_id)
    return len(chosen)


def _rates_by_kind(
    firm_id: int, candidates: Sequence[Candidate]
) -> dict[Kind, dict[BucketKey, Rate]]:
    """Return the buckets that count the rated candidates, by their kinds."""
    kinds = {candidate.kind for candidate in candidates if candidate.rated}
    if not kinds:
        return {}
    limits = FirmRates.read(firm_id)
    return {kind: limits.of_jobs(*kind) for kind in kinds}


def _in_all_firms(keys: Iterable[BucketKey]) -> bool:
    return any(key.counted_by == CountedBy.ALL_FIRMS for key in keys)


def _room(firm_id: int) -> int:
    """Lock the firm's row and return how many more of its jobs may be admitted.

    They are counted by a second statement, because it sees what the lock's last holder committed.
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


def _still_waiting(chosen: Sequence[Candidate]) -> list[Candidate]:
    """Lock and return the candidates that still wait; skip rows that another transaction locks."""
    if not chosen:
        return []
    dialect = dialects.current()
    rows, params = dialects.ids_sql(one.job_id for one in chosen)
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
    taken = take_job_slots([SlotRequest(*one.lock, one.lock_limit, one.job_id) for one in keyed])
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
