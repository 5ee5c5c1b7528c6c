"""Gives lock slots to waiting jobs and makes them ready.

A job with a lock key is stored waiting. Admission inserts the row of its slot and turns it ready;
the slot lives until the job settles, retries, snoozes or is released. Called right after a keyed
enqueue commits and after slots are freed; the sweep is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, reading, run

SWEEP_LIMIT = 500
# A few attempts bound the work where many racing admitters want the same key.
SLOTS_AT_ONCE = 16


def admit(keys: Iterable[tuple[int, str]]) -> int:
    """Fill the free slots of these (firm id, lock key) pairs; return how many jobs became ready."""
    return sum(_fill(firm_id, lock_key) for firm_id, lock_key in sorted(set(keys)))


def sweep() -> int:
    """Admit whatever can be admitted; return how many jobs became ready."""
    return admit(reading(_keys_with_work))


def free_orphan_slots() -> int:
    """Free slots held by jobs that are over or gone: what a lost write may have left behind."""
    return in_transaction(_free_orphans)


def _fill(firm_id: int, lock_key: str) -> int:
    admitted = 0
    for _ in range(SLOTS_AT_ONCE):
        if not in_transaction(lambda: _admit_one(firm_id, lock_key)):
            break
        admitted += 1
    return admitted


def _admit_one(firm_id: int, lock_key: str) -> bool:
    """Give the first free slot of the key to the first job that waits for it and is due."""
    dialect = dialects.current()
    now = dialect.now_sql()
    waiting = fetch(
        f"""
        SELECT job_id, lock_limit FROM jobs_jobqueue
        WHERE waiting AND firm_id = %s AND lock_key = %s AND status = 'pending'
          AND scheduled_at <= {now}
        ORDER BY priority, scheduled_at, job_id LIMIT 1 {dialect.skip_locked}
        """,
        [firm_id, lock_key],
    )
    if not waiting:
        return False
    job_id, limit = waiting[0]
    if not any(_take_slot(firm_id, lock_key, slot, job_id) for slot in range(limit)):
        return False
    return (
        run(
            f"UPDATE jobs_jobqueue SET ready = %s, waiting = %s, updated_at = {now}"
            " WHERE job_id = %s AND waiting",
            [True, False, job_id],
        )
        == 1
    )


def _take_slot(firm_id: int, lock_key: str, slot: int, job_id: object) -> bool:
    """Insert the slot's row, or take it over from a user's lock that has expired."""
    dialect = dialects.current()
    now = dialect.now_sql()
    token = dialect.draw_token_sql()
    holder = dialect.read_uuid(job_id)
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
        [dialect.value(Column.UUID, uuid7()), firm_id, lock_key, slot, f"job:{holder}"],
    )
    return bool(taken)


def _keys_with_work() -> list[tuple[int, str]]:
    """Return keys that have a job waiting and due, stepping over the waiting index key by key."""
    dialect = dialects.current()
    step = """SELECT q.firm_id, q.lock_key FROM jobs_jobqueue q WHERE q.waiting
        {after} ORDER BY q.firm_id, q.lock_key LIMIT 1"""
    keys: list[tuple[int, str]] = []
    found = fetch(step.format(after=""), [])
    while found and len(keys) < SWEEP_LIMIT:
        firm_id, lock_key = found[0]
        if fetch(
            f"""
            SELECT 1 FROM jobs_jobqueue q
            WHERE q.waiting AND q.firm_id = %s AND q.lock_key = %s
              AND q.scheduled_at <= {dialect.now_sql()} LIMIT 1
            """,
            [firm_id, lock_key],
        ):
            keys.append((firm_id, lock_key))
        found = fetch(
            step.format(after="AND (q.firm_id, q.lock_key) > (%s, %s)"), [firm_id, lock_key]
        )
    return keys


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
            LIMIT {SWEEP_LIMIT}
        )
        """,
        [],
    )
