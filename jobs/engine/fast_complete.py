"""Writes completions that nothing else hangs on, which nearly all are: in one statement.

What is left of a settlement then is its counters, and the statement adds to them itself. So a batch
costs one round trip, where the transaction of `settle` takes six.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from django.db import connection

from jobs import registry
from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.outcomes import Completed, Outcome
from jobs.engine.transactions import fetch_in_one_trip
from jobs.engine.transition import result_of

COLUMNS = {
    "id": Column.UUID,
    "token": Column.BIGINT,
    "result": Column.TEXT,
    "ran": Column.FLOAT,
    "begun_ago": Column.FLOAT,
}


def completion_sql(now: str) -> str:
    """Return what every completion writes to its row `j`, out of a row `r` of COLUMNS."""
    dialect = dialects.current()
    return f"""status = 'completed', result = r.result{dialect.json_cast}, last_error = '',
        started_at = COALESCE({started_sql(now)}, {now}),
        completed_at = {now}, ready = false, waiting = false, admitted = false,
        live_key = NULL, lease_token = -j.lease_token, updated_at = {now}
    """


def started_sql(now: str) -> str:
    """Return when the handler of a row `j` began: `r.begun_ago` seconds ago, where that is known."""
    began = dialects.current().after_sql(now, "-r.begun_ago")
    return f"CASE WHEN r.begun_ago IS NULL THEN j.started_at ELSE {began} END"


def row_of(
    claim: Claim, completed: Completed, ran_seconds: float | None, begun_ago: float | None
) -> tuple[object, ...]:
    """Return the values of COLUMNS."""
    return claim.job_id, claim.lease_token, result_of(completed), ran_seconds, begun_ago


def complete_plain(ended: Sequence[tuple[Claim, Outcome, float | None, float | None]]) -> set[int]:
    """Write those of these outcomes that are plain completions; return their lease tokens.

    With each, how many seconds its handler ran, and how long ago it began.

    What is not among them, was not written, or by an earlier statement whose answer was lost:
    `settle` has to look at it. It is a transaction by itself, so inside another nothing is done.

    Raises:
        DataError: the database refuses a result; nothing was written.
    """
    dialect = dialects.current()
    if not dialect.has_pipelines or connection.in_atomic_block:
        return set()
    breakers = registry.breakers()
    table = [
        row_of(claim, outcome, ran_seconds, begun_ago)
        for claim, outcome, ran_seconds, begun_ago in ended
        if isinstance(outcome, Completed)
        and claim.lock_key is None
        and claim.job_type not in breakers
    ]
    if not table:
        return set()
    rows, params = dialect.rows_sql("r", COLUMNS, table, hot=True)
    return {token for (token,) in fetch_in_one_trip(_sql(rows, dialect.now_sql()), params)}


@lru_cache(maxsize=8)
def _sql(rows: str, now: str) -> str:
    # A fan-in that is not complete may wait for one of these: then the long way is taken. One that
    # is being stored just now is found by the sweep, as everywhere (fan_in._add_members). In the
    # order of their keys, so that two workers adding to the same counters cannot deadlock.
    dialect = dialects.current()
    waited = dialect.seconds_between_sql("j.scheduled_at", "j.claimed_at")
    return f"""
        WITH done AS (
            UPDATE jobs_jobqueue AS j SET {completion_sql(now)}
            FROM {rows}
            WHERE j.job_id = r.id AND j.lease_token = r.token
              AND NOT EXISTS (SELECT 1 FROM jobs_faninmember)
            RETURNING j.firm_id, j.category, -j.lease_token AS token, {waited} AS waited, r.ran
        ), counted AS (
            INSERT INTO jobs_jobminute (id, firm_id, minute, category, completed, failed, dlq,
                canceled, retried, wait_ms, run_ms)
            SELECT gen_random_uuid(), firm_id, {dialect.minute_sql(now)}, category, count(*),
                0, 0, 0, 0, sum(greatest(waited, 0) * 1000), sum(ran) * 1000
            FROM done GROUP BY firm_id, category ORDER BY firm_id, category
            ON CONFLICT (firm_id, category, minute) DO UPDATE
            SET completed = jobs_jobminute.completed + excluded.completed,
                wait_ms = jobs_jobminute.wait_ms + excluded.wait_ms,
                run_ms = jobs_jobminute.run_ms + excluded.run_ms
        )
        SELECT token FROM done
    """
