"""Frees the lock slots that jobs hold."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.transactions import run


def job_holder(job_id: UUID) -> str:
    """Return how a lock names the job that holds it."""
    return f"job:{job_id}"


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
