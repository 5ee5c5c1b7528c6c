"""Takes and frees the lock slots that jobs hold."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.models.lock import JOB_HOLDER

ORPHANS = 500


def job_holder(job_id: UUID) -> str:
    """Return how a lock names the job that holds it."""
    return f"{JOB_HOLDER}{job_id}"


def take_slot(firm_id: int, lock_key: str, lock_limit: int, job_id: UUID) -> bool:
    """Give the job the first free slot of its key. False: all are held.

    Must join the transaction that makes the job ready. A user's lock that has expired is taken over.
    """
    return any(_take(firm_id, lock_key, slot, job_id) for slot in range(lock_limit))


def _take(firm_id: int, lock_key: str, slot: int, job_id: UUID) -> bool:
    dialect = dialects.current()
    now = dialect.now_sql()
    token = dialect.draw_token_sql()
    taken = fetch(
        f"""
        INSERT INTO jobs_concurrencylock
            (id, firm_id, lock_key, slot, holder_id, acquired_at, expires_at, fencing_token)
        SELECT %s, %s, %s, %s, %s, {now}, NULL, {token} WHERE true
        ON CONFLICT (firm_id, lock_key, slot) DO UPDATE
        SET holder_id = excluded.holder_id, acquired_at = excluded.acquired_at,
            expires_at = NULL, fencing_token = excluded.fencing_token
        WHERE jobs_concurrencylock.expires_at < {now}
        RETURNING id
        """,
        [dialect.value(Column.UUID, uuid7()), firm_id, lock_key, slot, job_holder(job_id)],
    )
    return bool(taken)


def free_job_locks(job_ids: Sequence[UUID]) -> None:
    """Free what these jobs hold. Must join the transaction in which they gave it up."""
    if not job_ids:
        return
    rows, params = dialects.current().rows_sql(
        "r", {"holder_id": Column.TEXT}, [(job_holder(job_id),) for job_id in job_ids]
    )
    run(
        f"DELETE FROM jobs_concurrencylock WHERE holder_id IN (SELECT r.holder_id FROM {rows})",
        params,
    )


def free_orphan_slots() -> int:
    """Free slots held by jobs that are over or gone: what a lost write may have left behind."""
    return in_transaction(_free_orphans)


def _free_orphans() -> int:
    dialect = dialects.current()
    return run(
        f"""
        DELETE FROM jobs_concurrencylock WHERE id IN (
            SELECT l.id FROM jobs_concurrencylock l
            WHERE l.holder_id LIKE 'job:%%' AND l.expires_at IS NULL
              AND NOT EXISTS (
                SELECT 1 FROM jobs_jobqueue j
                WHERE j.job_id = {dialect.job_of_holder_sql("l.holder_id")} AND j.ready
              )
            LIMIT {ORPHANS}
        )
        """,
        [],
    )
