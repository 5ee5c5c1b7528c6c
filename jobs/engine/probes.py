"""Sends one job through each breaker whose cooldown is over, and drops breakers nobody needs."""

from __future__ import annotations

from typing import Any

from jobs import registry
from jobs.engine import dialects
from jobs.engine.limit_sql import due_sql
from jobs.engine.transactions import fetch, in_transaction, reading, run

BATCH = 100
# A probe that has not started by then, behind a lock, a cap, a worker that is busy, makes room for
# another.
PATIENCE_SECONDS = 30.0

# Whose turn it is to be tried: after a cooldown, or in the place of a probe that is not at work.
WANTING = """(
    (b.state = 'open' AND b.probe_at <= {now})
    OR (b.state = 'half_open' AND NOT EXISTS (
        SELECT 1 FROM jobs_jobqueue j WHERE j.job_id = b.probe_job_id
          AND (j.status IN ('claimed', 'processing')
               OR (j.status = 'pending' AND b.probe_at > {now}))))
)"""


def send_probes() -> int:
    """Choose the jobs to try; admission lets them through. Return how many were chosen."""
    if not reading(_any_wanting):
        return 0
    return in_transaction(_choose)


def drop_idle_breakers() -> None:
    """Forget closed breakers without a failure of late, and those of types that declare none now."""
    bare = [declared.name for declared in registry.all_types() if declared.breaker is None]
    if reading(lambda: bool(fetch("SELECT 1 FROM jobs_circuitbreaker LIMIT 1", []))):
        in_transaction(lambda: _drop(bare))


def _any_wanting() -> bool:
    wanting = WANTING.format(now=dialects.current().now_sql())
    return bool(fetch(f"SELECT 1 FROM jobs_circuitbreaker b WHERE {wanting} LIMIT 1", []))


def _choose() -> int:
    dialect = dialects.current()
    now = dialect.now_sql()
    rows = fetch(
        f"""
        SELECT b.id, b.firm_id, b.job_type, b.probe_job_id FROM jobs_circuitbreaker b
        WHERE {WANTING.format(now=now)}
        ORDER BY b.firm_id, b.job_type LIMIT {BATCH} {dialect.skip_locked}
        """,
        [],
    )
    return sum(_choose_for(*row) for row in rows)


def _choose_for(breaker_id: Any, firm_id: int, job_type: str, last: Any) -> bool:
    """Make the job that is next in line the probe; the last one only where no other waits."""
    dialect = dialects.current()
    jobs = fetch(
        f"""
        SELECT q.job_id FROM jobs_jobqueue q
        WHERE q.waiting AND q.firm_id = %s AND q.job_type = %s AND {due_sql("q")}
        ORDER BY CASE WHEN q.job_id = %s THEN 1 ELSE 0 END, q.priority, q.scheduled_at, q.job_id
        LIMIT 1
        """,
        [firm_id, job_type, last],
    )
    if not jobs:
        # The next job to come is tried.
        return False
    until = dialect.after_sql(dialect.now_sql(), "%s")
    run(
        f"UPDATE jobs_circuitbreaker SET state = 'half_open', probe_job_id = %s, probe_at = {until}"
        " WHERE id = %s",
        [jobs[0][0], PATIENCE_SECONDS, breaker_id],
    )
    return True


def _drop(bare: list[str]) -> None:
    dialect = dialects.current()
    types = f"b.job_type IN ({', '.join(['%s'] * len(bare))})" if bare else "false"
    run(
        f"""
        DELETE FROM jobs_circuitbreaker WHERE id IN (
            SELECT b.id FROM jobs_circuitbreaker b
            WHERE b.state = 'closed' AND b.window_ends_at <= {dialect.now_sql()} OR {types}
            LIMIT {BATCH} {dialect.skip_locked}
        )
        """,
        bare,
    )
