"""Stores new jobs, in the caller's transaction when there is one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from django.db import connection, transaction

from jobs.engine import dialects
from jobs.engine.admission import admit
from jobs.engine.dialects import Column
from jobs.engine.insert_sql import NewJob, insert_sql, rows_sql
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.transactions import (
    fetch,
    in_transaction,
    outside_the_engine,
    run,
    run_alone,
    without_waiting,
)
from jobs.engine.wakeup import TELL_AHEAD_SECONDS, is_due, note_told, tell_sql, wake

CHUNK = 1000
RACE_REPEATS = 20


def insert(jobs: Sequence[NewJob]) -> list[UUID]:
    """Store the jobs and return, for each, the id of the job that now stands for it.

    That is its own id, or the id of the job that already holds its idempotency key (live, or ever
    for once-only types). Autocommit: its own transaction. Keyed jobs are stored waiting; the
    caller admits them after the commit (`engine.admit`).
    """
    stored: list[UUID] = []
    for start in range(0, len(jobs), CHUNK):
        chunk = jobs[start : start + CHUNK]
        stored.extend(in_transaction(lambda chunk=chunk: _insert_chunk(chunk)))  # type: ignore[misc]  # the default binds the loop variable
    return stored


def overlaps() -> bool:
    """Say whether `insert_as_made` is a gain: the database works while this process does."""
    return dialects.current().has_pipelines and not connection.in_atomic_block


def insert_as_made(
    batches: Callable[[], Iterable[Sequence[NewJob]]],
) -> tuple[list[NewJob], list[UUID]]:
    """Store batch after batch, each while the next one is made; return the jobs, and as `insert`.

    All of it is one transaction, which what `batches` raises undoes; after a deadlock it is called
    again.
    """

    def work() -> tuple[list[NewJob], list[UUID]]:
        jobs: list[NewJob] = []
        stored: list[UUID] = []
        made = iter(batches())
        with without_waiting():
            while batch := _next_of(made):
                stored += _insert_chunk(batch)
                jobs += batch
        return jobs, stored

    return in_transaction(work)


def _next_of(batches: Iterator[Sequence[NewJob]]) -> Sequence[NewJob]:
    """Return the next batch, or none; types' own functions run in the making of it."""
    with outside_the_engine():
        return next(batches, ())


def insert_alone(jobs: Sequence[NewJob]) -> bool:
    """Store jobs in one statement, which is its transaction too; False: `insert` has to do it.

    That is so inside a transaction, where more than one statement is needed, and where the key of a
    single job is held.
    """
    keyed = _any_keyed(jobs)
    more_than_one = keyed and (len(jobs) > 1 or jobs[0].once_only)
    if connection.in_atomic_block or more_than_one:
        return False
    dialect = dialects.current()
    wall = dialect.engine_wall_sql("wall")
    if wall is None:
        return False
    rows, params = rows_sql(jobs)
    category = _to_tell(jobs)
    if category is not None:
        rows, params = f"{tell_sql('told')}, {rows}", [category, *params]
    told_at = time.monotonic()
    stored = run_alone(insert_sql(f"{wall}, {rows}", dialect.now_sql(), keyed=keyed), params)
    if category is not None:
        note_told(category, told_at)
    return stored == len(jobs)


def _to_tell(jobs: Sequence[NewJob]) -> str | None:
    """Return the category of which the statement itself shall tell workers; the rest is `set_off`'s.

    Not of jobs that have to be admitted first: there would be nothing to claim yet.
    """
    category = jobs[0].category
    if any(job.category != category or job.lock_key is not None for job in jobs):
        return None
    return category if is_due(category, ahead=TELL_AHEAD_SECONDS) else None


def set_off(jobs: Sequence[NewJob]) -> None:
    """Admit keyed jobs and wake workers, after the commit.

    A failure here costs time only: the sweep repairs it.
    """
    keys = frozenset((job.firm_id, job.lock_key) for job in jobs if job.lock_key)
    if keys:
        admit(ReleasedCapacity(keys=keys))
    wake({job.category for job in jobs})


def _any_keyed(jobs: Sequence[NewJob]) -> bool:
    return any(job.idempotency_key is not None for job in jobs)


def _insert_chunk(jobs: Sequence[NewJob]) -> list[UUID]:
    if not _any_keyed(jobs):
        rows, params = rows_sql(jobs)
        run(insert_sql(rows, dialects.current().now_sql(), keyed=False), params, hot=True)
        return [job.job_id for job in jobs]
    once_only = [job for job in jobs if job.once_only and job.idempotency_key is not None]
    stands_for = _reserve_once_only(once_only)
    first_comers = [job for job in once_only if job.job_id not in stands_for]
    open_jobs = {job.job_id: job for job in jobs if job.job_id not in stands_for}
    for _ in range(RACE_REPEATS):
        stored = _insert_keyed(list(open_jobs.values()))
        refused = {job_id: job for job_id, job in open_jobs.items() if job_id not in stored}
        stands_for.update((job_id, job_id) for job_id in stored)
        stands_for.update(_live_holders(refused))
        # A holder that settled in between has freed its key: insert again.
        open_jobs = {job_id: job for job_id, job in refused.items() if job_id not in stands_for}
        if not open_jobs:
            break
    _hand_keys_on([job for job in first_comers if stands_for[job.job_id] != job.job_id], stands_for)
    # A late one may stand for a job of this chunk that was not stored itself.
    return [stands_for.get(stands_for[job.job_id], stands_for[job.job_id]) for job in jobs]


def _insert_keyed(jobs: Sequence[NewJob]) -> set[UUID]:
    """Store those whose idempotency key is free, and return their ids."""
    if not jobs:
        return set()
    dialect = dialects.current()
    rows, params = rows_sql(jobs)
    sql = insert_sql(rows, dialect.now_sql(), keyed=True)
    return {dialect.read_uuid(row[0]) for row in fetch(sql, params, hot=True)}


def _live_holders(refused: dict[UUID, NewJob]) -> dict[UUID, UUID]:
    """Return, for each refused job, the id of the live job that holds its key."""
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
    """Reserve the keys of once-only jobs for ever; return the jobs that came too late.

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


def _hand_keys_on(refused: Sequence[NewJob], stands_for: dict[UUID, UUID]) -> None:
    """Let the keys these jobs reserved name the live jobs that stand for them."""
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
