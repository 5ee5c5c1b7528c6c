"""Finds the jobs in flight of one worker."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch

BATCH = 200


class InFlightJob(NamedTuple):
    """A claimed or processing job, read from its row; `ran_seconds` None: no start was recorded."""

    job_id: UUID
    worker_id: UUID
    admitted: bool
    cancel_requested: bool
    waited_seconds: float
    ran_seconds: float | None
    firm_id: int
    category: str
    job_type: str
    correlation_id: str
    attempts: int
    max_attempts: int
    series: int
    deaths: int
    lease_token: int
    lock_key: str | None


def lock_in_flight(worker_id: UUID, *, except_tokens: Collection[int] = ()) -> list[InFlightJob]:
    """Return, and lock, a batch of the worker's jobs in flight, without those of these tokens."""
    dialect = dialects.current()
    tokens, params = dialect.rows_sql(
        "r", {"token": Column.BIGINT}, [(token,) for token in except_tokens]
    )
    rows = fetch(
        f"""
        SELECT job_id, admitted, cancel_requested_at IS NOT NULL,
            {dialect.seconds_between_sql("scheduled_at", "claimed_at")},
            {dialect.seconds_between_sql("started_at", dialect.now_sql())},
            firm_id, category, job_type, correlation_id, attempts, max_attempts, series, deaths,
            lease_token, lock_key
        FROM jobs_jobqueue
        WHERE ready AND worker_id = %s AND status IN ('claimed', 'processing')
          AND lease_token NOT IN (SELECT r.token FROM {tokens})
        ORDER BY job_id LIMIT {BATCH} {dialect.skip_locked}
        """,
        [dialect.value(Column.UUID, worker_id), *params],
    )
    return [
        InFlightJob(
            dialect.read_uuid(job_id),
            worker_id,
            bool(admitted),
            bool(cancel_requested),
            max(float(waited or 0.0), 0.0),
            ran,
            *as_stored,
        )
        for job_id, admitted, cancel_requested, waited, ran, *as_stored in rows
    ]
