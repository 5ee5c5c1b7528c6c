"""Stores new jobs; one whose idempotency key is taken may replace a job that has not begun."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.insert import dispatch_after_commit, insert
from jobs.engine.insert_sql import rows_sql
from jobs.engine.new_job import NewJob
from jobs.engine.requeue import requeue_pending
from jobs.engine.transactions import fetch, in_transaction, run
from jobs.states import OnConflict

# Neither claimed now nor ever started. A retried, snoozed or restarted job does not qualify either,
# because its steps may have results that belong to its payload. Nor does one with a step, whose
# attempt may have been given back: its worker died after the handler, and before its outcome was
# stored.
NOT_BEGUN = """
    status = 'pending' AND attempts = 0 AND series = 1 AND started_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM jobs_jobstep s
        WHERE s.firm_id = jobs_jobqueue.firm_id AND s.job_id = jobs_jobqueue.job_id)
"""
REPLACED = (
    "payload_version",
    "correlation_id",
    "user_id",
    "priority",
    "max_attempts",
    "expires_at",
    "lock_key",
    "lock_limit",
    "lock_counted_by",
    "limit_key",
    "limit_units",
)


def insert_or_replace(
    jobs: Sequence[NewJob], *, database: BaseDatabaseWrapper | None = None
) -> tuple[list[UUID], frozenset[UUID]]:
    """Store the jobs as `insert` does; also return the ids of those that replaced another job."""
    if all(job.on_conflict is None for job in jobs):
        return insert(jobs, database=database), frozenset()
    return in_transaction(lambda: _insert_or_replace(jobs))


def _insert_or_replace(jobs: Sequence[NewJob]) -> tuple[list[UUID], frozenset[UUID]]:
    stored = insert(jobs)
    refused = [
        (job, holder)
        for job, holder in zip(jobs, stored, strict=True)
        if job.on_conflict is not None and job.job_id != holder
    ]
    # Sorted, so that two callers cannot deadlock; of several jobs with one key, the last one wins.
    refused.sort(key=lambda pair: pair[1].bytes)
    return stored, frozenset(job.job_id for job, holder in refused if _replace(job, holder))


def _replace(job: NewJob, holder: UUID) -> bool:
    """Give the key's holder the new job's contents; False if it has begun or has another type."""
    dialect = dialects.current()
    found = fetch(
        f"""
        SELECT category, lock_key FROM jobs_jobqueue
        WHERE job_id = %s AND job_type = %s AND {NOT_BEGUN} {dialect.for_update}
        """,
        [dialect.value(Column.UUID, holder), job.job_type],
    )
    if not found:
        return False
    rows, params = rows_sql([job])
    kept = ", ".join(f"{column} = r.{column}" for column in REPLACED)
    run(
        f"""
        UPDATE jobs_jobqueue AS j
        SET {kept}, payload = r.payload{dialect.json_cast},
            scheduled_at = {_due_sql(job)}, updated_at = {dialect.now_sql()}
        FROM {rows} WHERE j.job_id = %s
        """,
        [*params, dialect.value(Column.UUID, holder)],
    )
    requeue_pending(holder)
    ((category, lock_key),) = found
    # Dispatches the old lock key; the caller dispatches the new one.
    dispatch_after_commit({(category, job.firm_id, lock_key)})
    return True


def _due_sql(job: NewJob) -> str:
    if job.on_conflict is OnConflict.REPLACE:
        return "j.scheduled_at"
    dialect = dialects.current()
    due = f"COALESCE(r.run_at, {dialect.after_sql(dialect.now_sql(), 'r.delay')})"
    if job.max_wait is None:
        return due
    latest = dialect.after_sql("j.created_at", repr(job.max_wait))
    return f"CASE WHEN {due} < {latest} THEN {due} ELSE {latest} END"
