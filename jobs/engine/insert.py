"""Stores new jobs, in the caller's transaction when there is one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

from django.db import connection, transaction

from jobs.engine import dialects
from jobs.engine.admission import admit
from jobs.engine.dialects import Column
from jobs.engine.insert_sql import NewJob, insert_sql, rows_sql
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.transactions import fetch, fetch_alone, in_transaction, run, run_alone
from jobs.engine.wakeup import NOTIFY_AHEAD_SECONDS, note_notify, notify_is_due, notify_sql, wake

BATCH = 1000
RACE_REPEATS = 20


def insert(jobs: Sequence[NewJob]) -> list[UUID]:
    """Store the jobs, all or none, and return the id of the job that stands for each of them.

    That is its own id, or the id of the job that already has its idempotency key (a live one; of
    once-only types, any ever stored). Jobs with a lock key are stored waiting: call `dispatch`
    after the commit.
    """
    if not jobs:
        return []
    if not connection.in_atomic_block and _insert_alone(jobs):
        return [job.job_id for job in jobs]

    def in_batches() -> list[UUID]:
        stored: list[UUID] = []
        for start in range(0, len(jobs), BATCH):
            stored += _insert_batch(jobs[start : start + BATCH])
        return stored

    return in_transaction(in_batches)


def dispatch(jobs: Sequence[NewJob]) -> None:
    """Admit jobs with lock keys and wake workers, after the commit.

    A failure here only delays the jobs: the sweep and polling find them.
    """
    keys = frozenset((job.firm_id, job.lock_key) for job in jobs if job.lock_key)
    if keys:
        admit(ReleasedCapacity(keys=keys))
    wake({job.category for job in jobs})


def _insert_alone(jobs: Sequence[NewJob]) -> bool:
    """Store the jobs in one statement that is its own transaction, and notifies workers.

    False: nothing was stored, and it takes more statements. Those are needed for many jobs, for
    idempotency keys of several jobs or of once-only types, and where a single job's key is taken.
    """
    keyed = _any_keyed(jobs)
    if len(jobs) > BATCH or (keyed and (len(jobs) > 1 or jobs[0].once_only)):
        return False
    dialect = dialects.current()
    rows, params = rows_sql(jobs)
    category = _category_to_notify(jobs)
    if category is not None:
        rows, params = f"{notify_sql('notified')}, {rows}", [category, *params]
    begun = time.monotonic()
    rows = f"{dialect.rls_bypass_sql('bypass')}, {rows}"
    sql = insert_sql(rows, dialect.now_sql(), keyed=keyed)
    # SQLite knows no row count of a statement that returns rows.
    stored = len(fetch_alone(sql, params)) if keyed else run_alone(sql, params)
    if category is not None:
        note_notify(category, begun)
    return stored == len(jobs)


def _category_to_notify(jobs: Sequence[NewJob]) -> str | None:
    """Return the category whose workers the inserting statement itself notifies.

    None where `dispatch` does it: for several categories, and for jobs to be admitted first.
    """
    category = jobs[0].category
    if any(job.category != category or job.lock_key is not None for job in jobs):
        return None
    is_due = notify_is_due(category, ahead=NOTIFY_AHEAD_SECONDS)
    return category if is_due and connection.vendor == "postgresql" else None


def _any_keyed(jobs: Sequence[NewJob]) -> bool:
    return any(job.idempotency_key is not None for job in jobs)


def _insert_batch(jobs: Sequence[NewJob]) -> list[UUID]:
    if not _any_keyed(jobs):
        rows, params = rows_sql(jobs)
        run(insert_sql(rows, dialects.current().now_sql(), keyed=False), params, prepared=True)
        return [job.job_id for job in jobs]
    once_only = [job for job in jobs if job.once_only and job.idempotency_key is not None]
    stands_for = _reserve_once_only(once_only)
    reserving = [job for job in once_only if job.job_id not in stands_for]
    open_jobs = {job.job_id: job for job in jobs if job.job_id not in stands_for}
    for _ in range(RACE_REPEATS):
        stored = _insert_keyed(list(open_jobs.values()))
        refused = {job_id: job for job_id, job in open_jobs.items() if job_id not in stored}
        stands_for.update((job_id, job_id) for job_id in stored)
        stands_for.update(_live_jobs_with_keys(refused))
        # A job that settled in between has released its key: insert again.
        open_jobs = {job_id: job for job_id, job in refused.items() if job_id not in stands_for}
        if not open_jobs:
            break
    _pass_on_keys([job for job in reserving if stands_for[job.job_id] != job.job_id], stands_for)
    # A refused job may stand for another of this batch that was refused too: follow it once more.
    return [stands_for.get(stands_for[job.job_id], stands_for[job.job_id]) for job in jobs]


def _insert_keyed(jobs: Sequence[NewJob]) -> set[UUID]:
    """Store those whose idempotency key is free, and return their ids."""
    if not jobs:
        return set()
    dialect = dialects.current()
    rows, params = rows_sql(jobs)
    sql = insert_sql(rows, dialect.now_sql(), keyed=True)
    return {dialect.read_uuid(row[0]) for row in fetch(sql, params, prepared=True)}


def _live_jobs_with_keys(refused: dict[UUID, NewJob]) -> dict[UUID, UUID]:
    """Return, for each refused job, the id of the live job that has its key."""
    if not refused:
        return {}
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"job_id": Column.UUID, "firm_id": Column.BIGINT, "live_key": Column.TEXT},
        [(job.job_id, job.firm_id, job.idempotency_key) for job in refused.values()],
    )
    found = fetch(
        f"""
        SELECT r.job_id, j.job_id FROM {rows}
        JOIN jobs_jobqueue j ON j.firm_id = r.firm_id AND j.live_key = r.live_key
        """,
        params,
    )
    return {dialect.read_uuid(mine): dialect.read_uuid(theirs) for mine, theirs in found}


def _reserve_once_only(jobs: Sequence[NewJob]) -> dict[UUID, UUID]:
    """Reserve the keys of once-only jobs for ever; return, by id, who had a key before.

    Each must have a key. Must run in the transaction that stores the jobs.
    """
    if not jobs:
        return {}
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("once-only keys need a transaction")
    dialect = dialects.current()
    columns = {"firm_id": Column.BIGINT, "key": Column.TEXT, "job_id": Column.UUID}
    table = [(job.firm_id, job.idempotency_key, job.job_id) for job in jobs]
    rows, params = dialect.rows_sql("r", columns, table)
    fetch(
        f"""
        INSERT INTO jobs_idempotencykey (id, firm_id, key, job_id, created_at)
        SELECT r.job_id, r.firm_id, r.key, r.job_id, {dialect.now_sql()} FROM {rows} WHERE true
        ON CONFLICT (firm_id, key) DO NOTHING RETURNING id
        """,
        params,
    )
    rows, params = dialect.rows_sql("r", columns, table)
    holders = fetch(
        f"""
        SELECT r.job_id, k.job_id FROM {rows}
        JOIN jobs_idempotencykey k ON k.firm_id = r.firm_id AND k.key = r.key
        WHERE k.job_id <> r.job_id
        """,
        params,
    )
    return {dialect.read_uuid(mine): dialect.read_uuid(theirs) for mine, theirs in holders}


def _pass_on_keys(refused: Sequence[NewJob], stands_for: dict[UUID, UUID]) -> None:
    """Let the keys that these jobs reserved name the live jobs that stand for them."""
    if not refused:
        return
    rows, params = dialects.current().rows_sql(
        "r",
        {"mine": Column.UUID, "holder": Column.UUID, "firm": Column.BIGINT},
        [(job.job_id, stands_for[job.job_id], job.firm_id) for job in refused],
    )
    run(
        f"""
        UPDATE jobs_idempotencykey AS k SET job_id = r.holder FROM {rows}
        WHERE k.id = r.mine AND k.firm_id = r.firm
        """,
        params,
    )
