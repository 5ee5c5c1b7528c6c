"""The statement that stores new jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from jobs.engine import dialects
from jobs.engine.dialects import Column, Dialect, user_column
from jobs.engine.limit_sql import held_back_sql
from jobs.engine.new_job import NewJob

# Columns that hardly ever have the same value for all jobs.
OWN = ("job_id", "payload", "correlation_id")


@cache
def columns() -> dict[str, Column]:
    """Return the columns of a new job that the caller decides, in the order of `NewJob`'s fields."""
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
        "lock_counted_by": Column.TEXT,
        "limit_key": Column.TEXT,
        "limit_units": Column.INTEGER,
        "idempotency_key": Column.TEXT,
    }


def rows_sql(jobs: Sequence[NewJob]) -> tuple[str, list[Any]]:
    """Return a table `r` of the jobs and its parameters; a value common to all is sent once."""
    dialect = dialects.current()
    if len(jobs) == 1:
        return _one_row_sql(dialect), dialect.values(columns(), jobs[0][: len(columns())])
    values = dict(zip(NewJob._fields, zip(*jobs, strict=True), strict=True))
    common = {
        name: kind
        for name, kind in columns().items()
        if name not in OWN and values[name].count(values[name][0]) == len(jobs)
    }
    own = {name: kind for name, kind in columns().items() if name not in common}
    table = list(zip(*(values[name] for name in own), strict=True))
    rows, params = dialect.rows_sql("own", own, table)
    if common:
        rows = f"{dialect.row_sql('common', common)} CROSS JOIN {rows}"
        params = dialect.values(common, [values[name][0] for name in common]) + params
    return f"(SELECT * FROM {rows}) AS r", params


@lru_cache(maxsize=1)
def _one_row_sql(dialect: Dialect) -> str:
    return dialect.row_sql("r", columns())


@lru_cache(maxsize=32)
def insert_sql(rows: str, now: str, *, keyed: bool, single: bool, ends_bypass: bool = False) -> str:
    """Return the statement that stores `rows`; cached, as composing it takes as long as running it.

    With `keyed` it skips jobs whose idempotency key is taken, and returns the ids of the others.
    With `ends_bypass` it also ends the RLS bypass, so that row level security applies again.
    """
    dialect = dialects.current()
    held_back = held_back_sql("r", single=single)
    due = f"COALESCE(r.run_at, {dialect.after_sql(now, 'r.delay')})"
    only_free = (
        "ON CONFLICT (firm_id, live_key) WHERE live_key IS NOT NULL DO NOTHING RETURNING job_id"
    )
    # Without the fence the limit conditions would be evaluated twice: for `ready` and for `waiting`.
    sql = f"""
        INSERT INTO jobs_jobqueue (
            job_id, firm_id, user_id, parent_id, category, job_type, payload_version, payload,
            correlation_id, priority, max_attempts, scheduled_at, expires_at, lock_key, lock_limit,
            lock_counted_by, limit_key, limit_units, idempotency_key, live_key, ready, waiting, created_at, updated_at,
            status, attempts, last_error, lease_token, deaths, series, progress_note
        )
        SELECT r.job_id, r.firm_id, r.user_id, r.parent_id, r.category, r.job_type,
            r.payload_version, r.payload{dialect.json_cast}, r.correlation_id, r.priority,
            r.max_attempts, {due}, r.expires_at, r.lock_key, r.lock_limit,
            r.lock_counted_by, r.limit_key, r.limit_units, r.idempotency_key, r.idempotency_key, NOT r.waits, r.waits, {now}, {now},
            'pending', 0, '', 0, 0, 1, ''
        FROM (
            SELECT r.*, r.lock_key IS NOT NULL OR {held_back} AS waits
            FROM {rows} {dialect.subquery_fence}
        ) AS r WHERE true
        {only_free if keyed else ""}
        """
    return dialect.then_end_rls_bypass_sql(f"{sql} RETURNING job_id") if ends_bypass else sql
