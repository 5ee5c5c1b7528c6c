"""Finds the jobs in flight of one worker."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch
from jobs.states import Status

BATCH = 200


@dataclass(frozen=True)
class Held:
    """A job in flight, as others see it."""

    job_id: UUID
    firm_id: int
    category: str
    job_type: str
    status: Status
    attempts: int
    max_attempts: int
    series: int
    deaths: int
    lease_token: int
    lock_key: str | None
    admitted: bool
    canceled: bool
    worker_id: UUID
    correlation_id: str
    waited_seconds: float
    # None where nobody wrote down that its handler had started.
    ran_seconds: float | None


def held_by(worker_id: UUID, *, besides: Collection[int] = ()) -> list[Held]:
    """Return, and lock, a batch of the worker's jobs in flight; not those with these tokens."""
    dialect = dialects.current()
    tokens, params = dialect.rows_sql(
        "r", {"token": Column.BIGINT}, [(token,) for token in besides]
    )
    rows = fetch(
        f"""
        SELECT job_id, firm_id, category, job_type, status, attempts, max_attempts, series, deaths,
            lease_token, lock_key, admitted, cancel_requested_at IS NOT NULL, correlation_id,
            {dialect.seconds_between_sql("scheduled_at", "claimed_at")},
            {dialect.seconds_between_sql("started_at", dialect.now_sql())}
        FROM jobs_jobqueue
        WHERE ready AND worker_id = %s AND status IN ('claimed', 'processing')
          AND lease_token NOT IN (SELECT r.token FROM {tokens})
        ORDER BY job_id LIMIT {BATCH} {dialect.skip_locked}
        """,
        [dialect.value(Column.UUID, worker_id), *params],
    )
    return [
        Held(
            job_id=dialect.read_uuid(row[0]),
            firm_id=row[1],
            category=row[2],
            job_type=row[3],
            status=Status(row[4]),
            attempts=row[5],
            max_attempts=row[6],
            series=row[7],
            deaths=row[8],
            lease_token=row[9],
            lock_key=row[10],
            admitted=bool(row[11]),
            canceled=bool(row[12]),
            worker_id=worker_id,
            correlation_id=row[13],
            waited_seconds=max(float(row[14] or 0.0), 0.0),
            ran_seconds=row[15],
        )
        for row in rows
    ]
