"""Stores new jobs, in the caller's transaction when there is one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from jobs.engine import dialects
from jobs.engine.admission import admit
from jobs.engine.dialects import Column, Dialect, user_column
from jobs.engine.limit_sql import held_back_sql
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.transactions import fetch, fetch_alone, in_transaction, run, run_alone
from jobs.engine.wakeup import NOTIFY_AHEAD_SECONDS, note_notify, notify_is_due, notify_sql, wake

BATCH = 1000
RACE_REPEATS = 20
# Columns that hardly ever have the same value for all jobs.
OWN = ("job_id", "payload", "correlation_id")


class NewJob(NamedTuple):
    """A validated job, as it will be stored. Times are aware, `delay` is seconds.

    The values of `_columns()` come first and in their order, so that a tuple is a row.
    """

    job_id: UUID
    firm_id: int
    category: str
    job_type: str
    payload_version: str
    payload: str
    correlation_id: str
    priority: int
    max_attempts: int
    user_id: Any = None
    parent_id: UUID | None = None
    run_at: datetime | None = None
    delay: float = 0.0
    expires_at: datetime | None = None
    lock_key: str | None = None
    lock_limit: int = 1
    idempotency_key: str | None = None
    once_only: bool = False


def insert(jobs: Sequence[NewJob]) -> list[UUID]:
    """Store the jobs, all or none, and return the id of the job that stands for each of them.

    That is its own, or that of the job that already has its idempotency key (a live one; of once-only
    types, any ever stored). Jobs with a lock key are stored waiting: call `dispatch` after the commit.
    """
    if not jobs:
        return []
    if not connection.in_atomic_block and _insert_alone(jobs):
        return [job.job_id for job in jobs]
    return in_transaction(lambda: _insert_in_batches(jobs))


def dispatch(jobs: Sequence[NewJob]) -> None:
    """Admit jobs with lock keys and wake workers, after the commit.

    A failure here only delays the jobs: the sweep and polling find them.
    """
    if keys := frozenset((job.firm_id, job.lock_key) for job in jobs if job.lock_key):
        admit(ReleasedCapacity(keys=keys))
    wake({job.category for job in jobs})


def _insert_alone(jobs: Sequence[NewJob]) -> bool:
    """Store the jobs in one statement that is its own transaction, and notifies workers.

    False: nothing was stored. It takes more statements for many jobs, for idempotency keys of
    several jobs or of once-only types, and where a single job's key is taken.
    """
    keyed = any(job.idempotency_key is not None for job in jobs)
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


def _key(job: NewJob) -> tuple[int, str]:
    return job.firm_id, job.idempotency_key or ""


def _insert_in_batches(jobs: Sequence[NewJob]) -> list[UUID]:
    """Take the once-only keys and then the live keys in one order: so two callers cannot deadlock."""
    stands_for: dict[UUID, UUID] = {}
    keyed = any(job.idempotency_key is not None for job in jobs)
    ordered = sorted(jobs, key=_key) if keyed else jobs
    once_only = [job for job in ordered if job.once_only and job.idempotency_key is not None]
    for start in range(0, len(once_only), BATCH):
        stands_for |= _reserve_once_only(once_only[start : start + BATCH])
    reserving = [job for job in once_only if job.job_id not in stands_for]
    unrefused = [job for job in ordered if job.job_id not in stands_for]
    for start in range(0, len(unrefused), BATCH):
        stands_for |= insert_batch(unrefused[start : start + BATCH])
    _pass_on_keys([job for job in reserving if stands_for[job.job_id] != job.job_id], stands_for)
    # A refused job may stand for another one that was refused too: follow it once more.
    return [stands_for.get(stands_for[job.job_id], stands_for[job.job_id]) for job in jobs]


def insert_batch(jobs: Sequence[NewJob]) -> dict[UUID, UUID]:
    """Store one batch inside `in_transaction`; return, by id, which live job stands for each."""
    if all(job.idempotency_key is None for job in jobs):
        rows, params = rows_sql(jobs)
        run(insert_sql(rows, dialects.current().now_sql(), keyed=False), params, prepared=True)
        return {job.job_id: job.job_id for job in jobs}
    stands_for: dict[UUID, UUID] = {}
    open_jobs = {job.job_id: job for job in jobs}
    dialect = dialects.current()
    for _ in range(RACE_REPEATS):
        rows, params = rows_sql(list(open_jobs.values()))
        sql = insert_sql(rows, dialect.now_sql(), keyed=True)
        stored = {dialect.read_uuid(row[0]) for row in fetch(sql, params, prepared=True)}
        refused = {job_id: job for job_id, job in open_jobs.items() if job_id not in stored}
        stands_for |= {job_id: job_id for job_id in stored} | _live_jobs_with_keys(refused)
        # A job that settled in between has released its key: insert again.
        open_jobs = {job_id: job for job_id, job in refused.items() if job_id not in stands_for}
        if not open_jobs:
            break
    return stands_for


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


@cache
def _columns() -> dict[str, Column]:
    return {
        "job_id": Column.UUID,
        "firm_id": Column.BIGINT,
        "category": Column.TEXT,
        "job_type": Column.TEXT,
        "payload_version": Column.TEXT,
        "payload": Column.TEXT,
        "correlation_id": Column.TEXT,
        "priority": Column.INTEGER,
        "max_attempts": Column.INTEGER,
        "user_id": user_column(),
        "parent_id": Column.UUID,
        "run_at": Column.TIME,
        "delay": Column.FLOAT,
        "expires_at": Column.TIME,
        "lock_key": Column.TEXT,
        "lock_limit": Column.INTEGER,
        "idempotency_key": Column.TEXT,
    }


def rows_sql(jobs: Sequence[NewJob]) -> tuple[str, list[Any]]:
    """Return a table `r` of the jobs and its parameters; a value common to all is sent once."""
    dialect = dialects.current()
    if len(jobs) == 1:
        return _one_row_sql(dialect), dialect.values(_columns(), jobs[0][: len(_columns())])
    values = dict(zip(NewJob._fields, zip(*jobs, strict=True), strict=True))
    common = {
        name: kind
        for name, kind in _columns().items()
        if name not in OWN and values[name].count(values[name][0]) == len(jobs)
    }
    own = {name: kind for name, kind in _columns().items() if name not in common}
    table = list(zip(*(values[name] for name in own), strict=True))
    rows, params = dialect.rows_sql("own", own, table)
    if common:
        rows = f"{dialect.row_sql('common', common)} CROSS JOIN {rows}"
        params = dialect.values(common, [values[name][0] for name in common]) + params
    return f"(SELECT * FROM {rows}) AS r", params


@lru_cache(maxsize=1)
def _one_row_sql(dialect: Dialect) -> str:
    return dialect.row_sql("r", _columns())


@lru_cache(maxsize=32)
def insert_sql(rows: str, now: str, *, keyed: bool) -> str:
    """Return the statement that stores `rows`; cached, for composing it takes as long as running it.

    With `keyed` it leaves out those whose idempotency key is taken, and returns the other ids.
    """
    dialect = dialects.current()
    due = f"COALESCE(r.run_at, {dialect.after_sql(now, 'r.delay')})"
    only_free = (
        "ON CONFLICT (firm_id, live_key) WHERE live_key IS NOT NULL DO NOTHING RETURNING job_id"
    )
    # Without the fence the limit conditions would be evaluated twice: for `ready` and for `waiting`.
    return f"""
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
        FROM (
            SELECT r.*, r.lock_key IS NOT NULL OR {held_back_sql("r")} AS waits
            FROM {rows} {dialect.subquery_fence}
        ) AS r WHERE true
        {only_free if keyed else ""}
        """
