"""The row of a new job, and the statement that stores a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column, Dialect
from jobs.engine.limit_sql import held_back_sql

COLUMNS = {
    "job_id": Column.UUID,
    "firm_id": Column.BIGINT,
    "category": Column.TEXT,
    "job_type": Column.TEXT,
    "payload_version": Column.TEXT,
    "payload": Column.TEXT,
    "correlation_id": Column.TEXT,
    "priority": Column.INTEGER,
    "max_attempts": Column.INTEGER,
    "user_id": Column.BIGINT,
    "parent_id": Column.UUID,
    "run_at": Column.TIME,
    "delay": Column.FLOAT,
    "expires_at": Column.TIME,
    "lock_key": Column.TEXT,
    "lock_limit": Column.INTEGER,
    "idempotency_key": Column.TEXT,
}
# Columns that hardly ever have the same value for all jobs.
OWN = ("job_id", "payload", "correlation_id")


class NewJob(NamedTuple):
    """A validated job, as it will be stored. Times are aware, `delay` is seconds.

    The values of COLUMNS come first and in their order, so that a tuple is a row.
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
    user_id: int | None = None
    parent_id: UUID | None = None
    run_at: datetime | None = None
    delay: float = 0.0
    expires_at: datetime | None = None
    lock_key: str | None = None
    lock_limit: int = 1
    idempotency_key: str | None = None
    once_only: bool = False


def rows_sql(jobs: Sequence[NewJob]) -> tuple[str, list[Any]]:
    """Return a table `r` of the jobs and its parameters; a value common to all is sent once."""
    dialect = dialects.current()
    if len(jobs) == 1:
        return _one_row_sql(dialect), dialect.values(COLUMNS, jobs[0][: len(COLUMNS)])
    values = dict(zip(NewJob._fields, zip(*jobs, strict=True), strict=True))
    common = {
        name: kind
        for name, kind in COLUMNS.items()
        if name not in OWN and values[name].count(values[name][0]) == len(jobs)
    }
    own = {name: kind for name, kind in COLUMNS.items() if name not in common}
    table = list(zip(*(values[name] for name in own), strict=True))
    rows, params = dialect.rows_sql("own", own, table)
    if common:
        rows = f"{dialect.row_sql('common', common)} CROSS JOIN {rows}"
        params = dialect.values(common, [values[name][0] for name in common]) + params
    return f"(SELECT * FROM {rows}) AS r", params


@lru_cache(maxsize=1)
def _one_row_sql(dialect: Dialect) -> str:
    return dialect.row_sql("r", COLUMNS)


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
