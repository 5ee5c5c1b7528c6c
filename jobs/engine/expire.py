"""Fails jobs that did not start before their `expires_at`."""

from __future__ import annotations

from jobs.engine import dialects
from jobs.engine.fan_in import leave_fan_ins
from jobs.engine.history import Counted, count
from jobs.engine.locks import free_job_locks
from jobs.engine.transactions import fetch, in_transaction

BATCH = 500
EXPIRED_MESSAGE = "expired"


def expire() -> int:
    """Fail a batch of pending jobs past their `expires_at`; return how many."""
    return in_transaction(_expire)


def _expire() -> int:
    dialect = dialects.current()
    now = dialect.now_sql()
    ended = fetch(
        f"""
        WITH due AS {dialect.materialized} (
            SELECT job_id FROM jobs_jobqueue
            WHERE expires_at <= {now} AND completed_at IS NULL AND status = 'pending'
            ORDER BY expires_at LIMIT {BATCH} {dialect.skip_locked}
        )
        UPDATE jobs_jobqueue
        SET status = 'failed', last_error = %s, completed_at = {now}, updated_at = {now},
            ready = %s, waiting = %s, live_key = NULL
        WHERE job_id IN (SELECT due.job_id FROM due) AND status = 'pending'
        RETURNING job_id, firm_id, category, lock_key
        """,
        [EXPIRED_MESSAGE, False, False],
    )
    free_job_locks([dialect.read_uuid(row[0]) for row in ended if row[3] is not None])
    leave_fan_ins((row[1], dialect.read_uuid(row[0])) for row in ended)
    count(Counted(firm_id=row[1], category=row[2], word="failed") for row in ended)
    return len(ended)
