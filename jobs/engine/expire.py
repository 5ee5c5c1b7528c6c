"""Fails jobs that did not start before their `expires_at`."""

from __future__ import annotations

from jobs.engine import dialects
from jobs.engine.end_attempts import end_pending
from jobs.engine.transactions import in_transaction
from jobs.states import Status

BATCH = 500
EXPIRED_MESSAGE = "expired"


def expire() -> int:
    """Fail a batch of pending jobs past their `expires_at`; return how many."""
    dialect = dialects.current()
    due = f"""
        WITH due AS {dialect.materialized} (
            SELECT job_id FROM jobs_jobqueue
            WHERE expires_at <= {dialect.now_sql()} AND completed_at IS NULL AND status = 'pending'
            ORDER BY expires_at LIMIT {BATCH} {dialect.skip_locked}
        )
    """
    which = "job_id IN (SELECT due.job_id FROM due)"
    return in_transaction(
        lambda: end_pending(Status.FAILED, EXPIRED_MESSAGE, which, [], select=due)
    )
