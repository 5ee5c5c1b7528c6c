"""Lock slots: the one INSERT that takes a slot, and the capacity that ended attempts give back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim, InFlightJob
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.models.limits import JOB_HOLDER
from jobs.states import CountedBy
from tenants.models import SYSTEM_SLUG

ORPHANS = 500

_REPLACE_EXPIRED = """
ON CONFLICT (firm_id, lock_key, slot) DO UPDATE
SET id = excluded.id, holder_id = excluded.holder_id, acquired_at = excluded.acquired_at,
    expires_at = excluded.expires_at, fencing_token = excluded.fencing_token
WHERE jobs_concurrencylock.expires_at < {now}
"""


def take_slot(
    lock_id: UUID,
    firm_id: int,
    lock_key: str,
    holder_id: str,
    ttl_seconds: float,
) -> bool:
    """Take the key's first slot, if it is free or its lock has expired, with a new lock `lock_id`.

    Joins the caller's `in_transaction`.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    taken = fetch(
        f"""
        INSERT INTO jobs_concurrencylock
            (id, firm_id, lock_key, slot, holder_id, acquired_at, expires_at, fencing_token)
        SELECT %s, %s, %s, 0, %s, {now}, {dialect.after_sql(now, "%s")},
            {dialect.next_token_sql()} WHERE true
        {_REPLACE_EXPIRED.format(now=now)}
        RETURNING id
        """,
        [dialect.value(Column.UUID, lock_id), firm_id, lock_key, holder_id, ttl_seconds],
    )
    return bool(taken)


def lock_firm_sql(job: str) -> str:
    """Return the firm that the lock key's slots belong to: the system firm if all share them."""
    return (
        f"CASE WHEN {job}.lock_counted_by = '{CountedBy.ALL_FIRMS}'"
        f" THEN (SELECT f.id FROM tenants_firm f WHERE f.slug = '{SYSTEM_SLUG}')"
        f" ELSE {job}.firm_id END"
    )


class SlotRequest(NamedTuple):
    """A job that needs a slot of its key; `firm_id` is the system firm's where all firms share it."""

    firm_id: int
    lock_key: str
    lock_limit: int
    job_id: UUID


def take_job_slots(requests: Sequence[SlotRequest]) -> set[UUID]:
    """Give each job the first free slot of its key, in order; return the jobs that got one.

    Must join the transaction that makes the jobs ready. A job whose slot another transaction takes
    at the same moment goes without.
    """
    free = _free_slots(requests)
    # In the order of the keys: two transactions that take slots of the same keys cannot deadlock.
    table = sorted(
        (request.firm_id, request.lock_key, slot, uuid7(), f"{JOB_HOLDER}{request.job_id}")
        for request in requests
        if (slot := next(free[request.firm_id, request.lock_key], None)) is not None
    )
    if not table:
        return set()
    dialect = dialects.current()
    columns = {
        "firm_id": Column.BIGINT,
        "lock_key": Column.TEXT,
        "slot": Column.INTEGER,
        "id": Column.UUID,
        "holder_id": Column.TEXT,
        "number": Column.INTEGER,
    }
    numbered = [(*row, number) for number, row in enumerate(table, start=1)]
    rows, params = dialect.rows_sql("r", columns, numbered)
    now = dialect.now_sql()
    taken = fetch(
        f"""
        INSERT INTO jobs_concurrencylock
            (firm_id, lock_key, slot, id, holder_id, acquired_at, fencing_token)
        SELECT r.firm_id, r.lock_key, r.slot, r.id, r.holder_id, {now},
            {dialect.next_token_sql(len(table), "r.number")} FROM {rows} WHERE true
        {_REPLACE_EXPIRED.format(now=now)}
        RETURNING holder_id
        """,
        params,
        prepared=True,
    )
    return {UUID(holder_id.removeprefix(JOB_HOLDER)) for (holder_id,) in taken}


def _free_slots(requests: Sequence[SlotRequest]) -> dict[tuple[int, str], Iterator[int]]:
    """Return the free slots of each key; the one slot of a key with one slot is not checked."""
    limits = {(one.firm_id, one.lock_key): one.lock_limit for one in requests}
    several = [key for key, limit in limits.items() if limit > 1]
    held: dict[tuple[int, str], set[int]] = {key: set() for key in limits}
    if several:
        dialect = dialects.current()
        columns = {"firm_id": Column.BIGINT, "lock_key": Column.TEXT}
        rows, params = dialect.rows_sql("r", columns, several)
        for firm_id, lock_key, slot in fetch(
            f"""
            SELECT l.firm_id, l.lock_key, l.slot FROM {rows} JOIN jobs_concurrencylock l
                ON l.firm_id = r.firm_id AND l.lock_key = r.lock_key
            WHERE l.expires_at IS NULL OR l.expires_at >= {dialect.now_sql()}
            """,
            params,
        ):
            held[firm_id, lock_key].add(slot)
    return {
        # A list, because a generator would use the value that `key` has after the last step.
        key: iter([slot for slot in range(limit) if slot not in held[key]])
        for key, limit in limits.items()
    }


def free_job_locks(job_ids: Sequence[UUID]) -> None:
    """Free the slots of these jobs. Must join the transaction that ends their attempts."""
    if not job_ids:
        return
    rows, params = dialects.current().rows_sql(
        "r", {"holder_id": Column.TEXT}, [(f"{JOB_HOLDER}{job_id}",) for job_id in job_ids]
    )
    run(
        f"DELETE FROM jobs_concurrencylock WHERE holder_id IN (SELECT r.holder_id FROM {rows})",
        params,
    )


def free_orphan_slots() -> int:
    """Free slots whose jobs have ended or are gone, which a lost write may have left behind."""
    dialect = dialects.current()
    job_id = (
        f"CASE WHEN l.holder_id LIKE 'job:%%' THEN {dialect.job_of_holder_sql('l.holder_id')} END"
    )
    return in_transaction(
        lambda: run(
            f"""
            DELETE FROM jobs_concurrencylock WHERE id IN (
                SELECT l.id FROM jobs_concurrencylock l
                {dialect.job_by_id_sql("LEFT JOIN", "j", job_id)}
                WHERE l.holder_id LIKE 'job:%%' AND l.expires_at IS NULL
                  AND (j.job_id IS NULL OR NOT j.ready)
                LIMIT {ORPHANS}
            )
            """,
            [],
        )
    )


class WaitingGroup(NamedTuple):
    """The waiting jobs of one firm, lock key, type and limit key; a key is empty for jobs without."""

    firm_id: int
    lock_key: str
    job_type: str
    limit_key: str


@dataclass(frozen=True)
class ReleasedCapacity:
    """Lock keys (firm id, key) with a free slot, and groups whose firm has room again.

    Of `keys_of_all_firms` the firm is the one whose job gave back the slot.
    """

    keys: frozenset[tuple[int, str]] = frozenset()
    groups: frozenset[WaitingGroup] = frozenset()
    keys_of_all_firms: frozenset[tuple[int, str]] = frozenset()

    @classmethod
    def of_jobs(cls, jobs: Iterable[Claim | InFlightJob]) -> ReleasedCapacity:
        """Return what these jobs give back when their attempts end."""
        jobs = list(jobs)
        keyed = [
            (job.firm_id, job.lock_key, job.lock_counted_by == CountedBy.ALL_FIRMS)
            for job in jobs
            if job.lock_key is not None
        ]
        return cls(
            keys=frozenset((firm_id, key) for firm_id, key, shared in keyed if not shared),
            keys_of_all_firms=frozenset((firm_id, key) for firm_id, key, shared in keyed if shared),
            groups=frozenset(
                WaitingGroup(job.firm_id, job.lock_key or "", job.job_type, job.limit_key or "")
                for job in jobs
                if job.admitted
            ),
        )

    def __or__(self, other: ReleasedCapacity) -> ReleasedCapacity:
        return ReleasedCapacity(
            self.keys | other.keys,
            self.groups | other.groups,
            self.keys_of_all_firms | other.keys_of_all_firms,
        )

    def __bool__(self) -> bool:
        return bool(self.keys or self.keys_of_all_firms or self.groups)
