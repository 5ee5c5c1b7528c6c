"""Stores new jobs, in the caller's transaction when there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from jobs.engine import dialects
from jobs.engine.admit import admit
from jobs.engine.dialects import Column
from jobs.engine.freed import Freed
from jobs.engine.gates import held_back_sql
from jobs.engine.transactions import fetch, fetch_alone, in_transaction, run
from jobs.engine.wakeup import wake

CHUNK = 1000
RACE_REPEATS = 20

COLUMNS = {
    "job_id": Column.UUID,
    "firm_id": Column.BIGINT,
    "user_id": Column.BIGINT,
    "parent_id": Column.UUID,
    "category": Column.TEXT,
    "job_type": Column.TEXT,
    "payload_version": Column.TEXT,
    "payload": Column.TEXT,
    "correlation_id": Column.TEXT,
    "priority": Column.INTEGER,
    "max_attempts": Column.INTEGER,
    "run_at": Column.TIME,
    "delay": Column.FLOAT,
    "expires_at": Column.TIME,
    "lock_key": Column.TEXT,
    "lock_limit": Column.INTEGER,
    "idempotency_key": Column.TEXT,
}


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A checked job, as it will stand in the table. Times are aware, `delay` is seconds."""

    job_id: UUID
    firm_id: int
    category: str
    job_type: str
    payload_version: str
    payload: str
    correlation_id: str
    priority: int
    max_attempts: int
    user_id: int | None = None
    parent_id: UUID | None = None
    run_at: datetime | None = None
    delay: float = 0.0
    expires_at: datetime | None = None
    lock_key: str | None = None
    lock_limit: int = 1
    idempotency_key: str | None = None
    once_only: bool = False

    def row(self) -> list[Any]:
        """Return the values of COLUMNS."""
        return [getattr(self, name) for name in COLUMNS]


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


def insert_alone(job: NewJob) -> bool:
    """Store one job in one statement, which is its transaction too; False: `insert` has to do it.

    That is so inside a transaction, where more than one statement is needed, and where the job's
    idempotency key is held.
    """
    if connection.in_atomic_block or job.once_only:
        return False
    dialect = dialects.current()
    wall = dialect.engine_wall_sql("wall")
    if wall is None:
        return False
    row, params = dialect.row_sql("r", COLUMNS, job.row())
    return bool(fetch_alone(_insert_sql(f"{wall}, {row}", dialect.now_sql()), params))


def set_off(jobs: Sequence[NewJob]) -> None:
    """Admit keyed jobs and wake workers, after the commit.

    A failure here costs time only: the sweep repairs it.
    """
    admit(Freed(keys=frozenset((job.firm_id, job.lock_key) for job in jobs if job.lock_key)))
    wake({job.category for job in jobs})


def _insert_chunk(jobs: Sequence[NewJob]) -> list[UUID]:
    once_only = [job for job in jobs if job.once_only and job.idempotency_key is not None]
    stands_for = _reserve_once_only(once_only)
    first_comers = [job for job in once_only if job.job_id not in stands_for]
    open_jobs = {job.job_id: job for job in jobs if job.job_id not in stands_for}
    for _ in range(RACE_REPEATS):
        stored = _insert_rows(list(open_jobs.values()))
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


def _insert_rows(jobs: Sequence[NewJob]) -> set[UUID]:
    if not jobs:
        return set()
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", COLUMNS, [job.row() for job in jobs])
    stored = fetch(_insert_sql(rows, dialect.now_sql()), params, hot=True)
    return {dialect.read_uuid(row[0]) for row in stored}


@lru_cache(maxsize=8)
def _insert_sql(rows: str, now: str) -> str:
    """Return the statement that stores `rows`; composing it takes as long as running it."""
    dialect = dialects.current()
    due = f"COALESCE(r.run_at, {dialect.after_sql(now, 'r.delay')})"
    # Apart, or the database would ask twice what holds a job back: for `ready` and for `waiting`.
    return f"""
        WITH new AS {dialect.materialized} (
            SELECT r.*, r.lock_key IS NOT NULL OR {held_back_sql("r")} AS waits FROM {rows}
        )
        INSERT INTO jobs_jobqueue (
            job_id, firm_id, user_id, parent_id, category, job_type, payload_version, payload,
            correlation_id, priority, max_attempts, scheduled_at, expires_at, lock_key, lock_limit,
            idempotency_key, live_key, ready, waiting, created_at, updated_at,
            status, attempts, last_error, lease_token, deaths, series, progress_note
        )
        SELECT r.job_id, r.firm_id, r.user_id, r.parent_id, r.category, r.job_type,
            r.payload_version, r.payload{dialect.json_cast}, r.correlation_id, r.priority,
            r.max_attempts, {due}, r.expires_at, r.lock_key, r.lock_limit, r.idempotency_key,
            r.idempotency_key, NOT r.waits, r.waits, {now}, {now},
            'pending', 0, '', 0, 0, 1, ''
        FROM new AS r WHERE true
        ON CONFLICT (firm_id, live_key) WHERE live_key IS NOT NULL DO NOTHING
        RETURNING job_id
        """


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
