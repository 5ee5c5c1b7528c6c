"""Plain completions: of a batch in one statement and one round trip, or in a handler's transaction.

A completion is plain when only its row and its counters change: no lock key, no breaker, no fan-in
waits for the job, and no batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db import connection

from jobs import registry
from jobs.engine import dialects
from jobs.engine.batches import ANY_UNCOMPLETED, UNCOMPLETED_SQL
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.fan_in import ANY_MEMBER
from jobs.engine.outcomes import Completed, Settlement
from jobs.engine.transactions import LockTimeout, fetch_in_scope, fetch_pipelined
from jobs.engine.transition import result_json

# A handler that completes its job waits this long for whoever has locked it: it may be the worker
# itself, which notes that the handler runs.
HANDLER_LOCK_TIMEOUT_MILLISECONDS = 1000

COLUMNS = {
    "id": Column.UUID,
    "token": Column.BIGINT,
    "result": Column.TEXT,
    "ran": Column.FLOAT,
    "begun_ago": Column.FLOAT,
}


def complete_plain(settlements: Sequence[Settlement]) -> set[int]:
    """Write the plain completions among these; return their lease tokens.

    What is missing from the answer is not plain, is stale, or was written by an earlier statement
    whose answer was lost: `settle` finds out. Inside a transaction, and on a database without
    pipelines, nothing is written; nor where another transaction has locked one of the jobs.

    Raises:
        DataError: the database refuses a result; nothing was written.
    """
    dialect = dialects.current()
    if not dialect.has_pipelines or connection.in_atomic_block:
        return set()
    table = _plain_rows(settlements)
    if not table:
        return set()
    rows, params = dialect.rows_sql("r", COLUMNS, table)
    sql = _sql(rows, dialect.now_sql())
    try:
        written = fetch_pipelined(sql, params, lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS)
    except LockTimeout:
        return set()
    return {token for (token,) in written}


def complete_in_scope(settlement: Settlement) -> bool:
    """Write a plain completion in the open transaction, which has its firm in scope.

    False: nothing was written; the completion is not plain, or the job was asked to stop, or it is no
    longer this claim's. It waits for a lock no longer than HANDLER_LOCK_TIMEOUT_MILLISECONDS.
    """
    dialect = dialects.current()
    table = _plain_rows([settlement]) if dialect.has_pipelines else []
    if not table:
        return False
    rows = dialect.row_sql("r", COLUMNS)
    sql = _sql(rows, dialect.now_sql(), in_scope=True)
    return bool(fetch_in_scope(sql, dialect.values(COLUMNS, table[0])))


def _plain_rows(settlements: Sequence[Settlement]) -> list[tuple[Any, ...]]:
    breakers = registry.breakers()
    now = time.monotonic()
    return [
        (
            one.claim.job_id,
            one.claim.lease_token,
            result_json(one.outcome),
            one.ran_seconds,
            one.begun_ago(now),
        )
        for one in settlements
        if isinstance(one.outcome, Completed)
        and one.claim.lock_key is None
        and one.claim.job_type not in breakers
    ]


@lru_cache(maxsize=8)
def _sql(rows: str, now: str, *, in_scope: bool = False) -> str:
    # A fan-in that is being stored right now is not seen here; the sweep completes it, as
    # everywhere (fan_in._add_members); so with a batch.
    dialect = dialects.current()
    waited = dialect.seconds_between_sql("j.scheduled_at", "j.claimed_at")
    began = dialect.after_sql(now, "-r.begun_ago")
    limit = condition = reset = ""
    if in_scope:
        condition = "AND j.cancel_requested_at IS NULL"
        # Set and reset by the statement itself: it is the only one that a handler's transaction adds.
        milliseconds = f"'{HANDLER_LOCK_TIMEOUT_MILLISECONDS}ms'"
        limit = f", (SELECT set_config('lock_timeout', {milliseconds}, true) OFFSET 0) AS limited"
        reset = ", set_config('lock_timeout', NULL, true)"
    return f"""
        WITH done AS (
            UPDATE jobs_jobqueue AS j
            SET status = 'completed', result = r.result{dialect.json_cast}, last_error = '',
                started_at = CASE
                    WHEN r.begun_ago IS NULL THEN COALESCE(j.started_at, {now}) ELSE {began} END,
                completed_at = {now}, ready = false, waiting = false, admitted = false,
                live_key = NULL, lease_token = -j.lease_token, updated_at = {now}
            FROM {rows}{limit}
            WHERE j.job_id = r.id AND j.lease_token = r.token
              AND (NOT EXISTS ({ANY_MEMBER}) OR NOT EXISTS (
                SELECT 1 FROM jobs_faninmember m
                WHERE m.firm_id = j.firm_id AND m.job_id = j.job_id))
              AND (NOT EXISTS ({ANY_UNCOMPLETED}) OR NOT EXISTS (
                SELECT 1 FROM jobs_batchmember m
                WHERE m.firm_id = j.firm_id AND m.job_id = j.job_id AND m.{UNCOMPLETED_SQL}
              )) {condition}
            RETURNING j.firm_id, j.category, -j.lease_token AS token, {waited} AS waited, r.ran
        ), counted AS (
            INSERT INTO jobs_jobminutedelta (id, firm_id, category, minute, completed, wait_ms, run_ms)
            SELECT gen_random_uuid(), firm_id, category, {dialect.minute_sql(now)}, count(*),
                sum(greatest(waited, 0) * 1000), sum(ran) * 1000
            FROM done GROUP BY firm_id, category
        )
        SELECT token{reset} FROM done
    """
