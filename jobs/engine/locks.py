"""Lock slots: the one INSERT that takes a slot, and the capacity that ended attempts give back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim, InFlightJob
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.models.limits import JOB_HOLDER

ORPHANS = 500


def take_slot(
    lock_id: UUID,
    firm_id: int,
    lock_key: str,
    holder_id: str,
    *,
    slot: int = 0,
    ttl_seconds: float | None = None,
) -> bool:
    """Take the slot, if it is free or its lock has expired, with a new lock `lock_id`.

    Without `ttl_seconds` the new lock never expires. Joins the caller's `in_transaction`.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    expires_at = "NULL" if ttl_seconds is None else dialect.after_sql(now, "%s")
    taken = fetch(
        f"""
        INSERT INTO jobs_concurrencylock
            (id, firm_id, lock_key, slot, holder_id, acquired_at, expires_at, fencing_token)
        SELECT %s, %s, %s, %s, %s, {now}, {expires_at}, {dialect.next_token_sql()} WHERE true
        ON CONFLICT (firm_id, lock_key, slot) DO UPDATE
        SET id = excluded.id, holder_id = excluded.holder_id, acquired_at = excluded.acquired_at,
            expires_at = excluded.expires_at, fencing_token = excluded.fencing_token
        WHERE jobs_concurrencylock.expires_at < {now}
        RETURNING id
        """,
        [
            dialect.value(Column.UUID, lock_id),
            firm_id,
            lock_key,
            slot,
            holder_id,
            *([] if ttl_seconds is None else [ttl_seconds]),
        ],
    )
    return bool(taken)


def take_job_slot(firm_id: int, lock_key: str, lock_limit: int, job_id: UUID) -> bool:
    """Give the job the first free slot of its key. False: there is none.

    Must join the transaction that makes the job ready.
    """
    return any(
        take_slot(uuid7(), firm_id, lock_key, f"{JOB_HOLDER}{job_id}", slot=slot)
        for slot in range(lock_limit)
    )


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
    holder = dialects.current().job_of_holder_sql("l.holder_id")
    return in_transaction(
        lambda: run(
            f"""
            DELETE FROM jobs_concurrencylock WHERE id IN (
                SELECT l.id FROM jobs_concurrencylock l
                WHERE l.holder_id LIKE 'job:%%' AND l.expires_at IS NULL
                  AND NOT EXISTS (
                    SELECT 1 FROM jobs_jobqueue j WHERE j.job_id = {holder} AND j.ready
                  )
                LIMIT {ORPHANS}
            )
            """,
            [],
        )
    )


class WaitingGroup(NamedTuple):
    """The waiting jobs of one firm, lock key (empty for jobs without one) and type."""

    firm_id: int
    lock_key: str
    job_type: str

    @property
    def key(self) -> tuple[int, str]:
        """The firm and its lock key."""
        return self.firm_id, self.lock_key


@dataclass(frozen=True)
class ReleasedCapacity:
    """Lock keys (firm id, key) with a free slot, and groups whose firm has room again."""

    keys: frozenset[tuple[int, str]] = frozenset()
    groups: frozenset[WaitingGroup] = frozenset()

    @classmethod
    def of_jobs(cls, jobs: Iterable[Claim | InFlightJob]) -> ReleasedCapacity:
        """Return what these jobs give back when their attempts end."""
        jobs = list(jobs)
        return cls(
            keys=frozenset((job.firm_id, job.lock_key) for job in jobs if job.lock_key is not None),
            groups=frozenset(
                WaitingGroup(job.firm_id, job.lock_key or "", job.job_type)
                for job in jobs
                if job.admitted
            ),
        )

    @classmethod
    def of_key(cls, firm_id: int, lock_key: str) -> ReleasedCapacity:
        """Return one slot of a lock key."""
        return cls(keys=frozenset([(firm_id, lock_key)]))

    def __or__(self, other: ReleasedCapacity) -> ReleasedCapacity:
        return ReleasedCapacity(self.keys | other.keys, self.groups | other.groups)

    def __bool__(self) -> bool:
        return bool(self.keys or self.groups)
