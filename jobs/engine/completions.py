"""Writes plain completions: many in one statement (on SQLite two), or a handler's own.

A completion is plain if only the job's row and counters change: the job has no lock key, its type
no breaker, and no fan-in or batch waits for it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from django.db import connection

from jobs import registry
from jobs.engine import dialects
from jobs.engine.batches import ANY_UNCOMPLETED, UNCOMPLETED_SQL
from jobs.engine.counters import Counted, count
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.fan_in import ANY_MEMBER
from jobs.engine.outcomes import Completed, Settlement
from jobs.engine.transactions import (
    LockTimeout,
    fetch,
    fetch_in_scope,
    fetch_pipelined,
    in_transaction,
)
from jobs.engine.transition import result_json
from jobs.states import Status
from tenants.local_settings import DURABLE_SETTING

# How long a handler that completes its job waits for the row's lock: the worker itself may hold it
# while it notes that the handler runs.
HANDLER_LOCK_TIMEOUT_MILLISECONDS = 1000


NOT_ASKED_TO_STOP = "AND j.cancel_requested_at IS NULL"

COLUMNS = {
    "id": Column.UUID,
    "token": Column.BIGINT,
    "result": Column.TEXT,
    "ran": Column.FLOAT,
    "begun_ago": Column.FLOAT,
}

# On PostgreSQL the durable scope sets this for its own transaction only.
SAME_TRANSACTION = f"current_setting('{DURABLE_SETTING}', true) <> ''"
_SAVEPOINT = "mailroom_durable"


def complete_plain(settlements: Sequence[Settlement]) -> set[int]:
    """Write the plain completions among these; return their lease tokens.

    A completion that is missing from the result is not plain, is stale, or was written by an
    earlier statement whose response was lost: `settle` finds out which. Nothing is written inside a
    transaction, or if another transaction has locked one of the jobs.

    Raises:
        DataError: the database refuses a result; nothing was written.
    """
    dialect = dialects.current()
    if connection.in_atomic_block:
        return set()
    plain = _plain(settlements)
    if not plain:
        return set()
    rows, params = dialect.rows_sql("r", COLUMNS, _rows(plain))
    if not dialect.has_pipelines:
        return in_transaction(lambda: _complete_and_count(plain, rows, params))
    sql = _sql(rows, dialect.now_sql())
    try:
        written = fetch_pipelined(sql, params, lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS)
    except LockTimeout:
        return set()
    return {token for (token,) in written}


def complete_in_scope(settlement: Settlement) -> bool:
    """Write a plain completion in the open transaction, which has its firm in scope.

    Returns False if nothing was written: the completion is not plain, the job was asked to stop,
    the claim is stale, or the handler ended the transaction. Waits for a lock at most
    HANDLER_LOCK_TIMEOUT_MILLISECONDS.
    """
    dialect = dialects.current()
    plain = _plain([settlement])
    if not plain:
        return False
    [row] = _rows(plain)
    rows, params = dialect.row_sql("r", COLUMNS), dialect.values(COLUMNS, row)
    if dialect.has_pipelines:
        sql = _sql(rows, dialect.now_sql(), in_scope=True)
        return bool(fetch_in_scope(sql, params))
    if not is_marked():
        return False
    return bool(in_transaction(lambda: _complete_and_count(plain, rows, params, NOT_ASKED_TO_STOP)))


def _complete_and_count(
    plain: Sequence[Settlement], rows: str, params: list[Any], condition: str = ""
) -> set[int]:
    """Write the rows, then the counters, in the open transaction; return the tokens."""
    sql = _update_sql(rows, dialects.current().now_sql(), condition, returning="-lease_token")
    written = {token for (token,) in fetch(sql, params, prepared=True)}
    count(
        Counted(
            one.claim.firm_id,
            one.claim.category,
            Status.COMPLETED.value,
            one.claim.waited_seconds,
            one.ran_seconds or 0.0,
        )
        for one in plain
        if one.claim.lease_token in written
    )
    return written


def _plain(settlements: Sequence[Settlement]) -> list[Settlement]:
    return [
        one
        for one in settlements
        if isinstance(one.outcome, Completed)
        and one.claim.lock_key is None
        and registry.breaker_of(one.claim.job_type) is None
    ]


def _rows(plain: Sequence[Settlement]) -> list[tuple[Any, ...]]:
    now = time.monotonic()
    return [
        (
            one.claim.job_id,
            one.claim.lease_token,
            result_json(cast("Completed", one.outcome)),
            one.ran_seconds,
            one.begun_ago(now),
        )
        for one in plain
    ]


@lru_cache(maxsize=8)
def _sql(rows: str, now: str, *, in_scope: bool = False) -> str:
    """Return the statement that completes `rows`; `in_scope`, one row in its handler's transaction."""
    dialect = dialects.current()
    waited = dialect.seconds_between_sql("j.scheduled_at", "j.claimed_at")
    condition = reset = ""
    counts = "count(*), sum(greatest(waited, 0) * 1000), sum(ran) * 1000"
    grouped = "GROUP BY firm_id, category"
    if in_scope:
        # The statement itself sets and resets it, so that it remains the only one added to the
        # handler's transaction.
        limit = f"set_config('lock_timeout', '{HANDLER_LOCK_TIMEOUT_MILLISECONDS}ms', true)"
        condition = f"{NOT_ASKED_TO_STOP} AND {SAME_TRANSACTION} AND (SELECT {limit}) <> ''"
        reset = ", set_config('lock_timeout', NULL, true)"
        counts, grouped = "1, greatest(waited, 0) * 1000, ran * 1000", ""
    returning = f"j.firm_id, j.category, -j.lease_token AS token, {waited} AS waited, r.ran"
    update = _update_sql(rows, now, condition, returning=returning, single=in_scope)
    return f"""
        WITH done AS ({update}), counted AS (
            INSERT INTO jobs_jobminutedelta (id, firm_id, category, minute, completed, wait_ms, run_ms)
            SELECT gen_random_uuid(), firm_id, category, {dialect.minute_sql(now)}, {counts}
            FROM done {grouped}
        )
        SELECT token{reset} FROM done
    """


def _update_sql(
    rows: str, now: str, condition: str = "", *, returning: str, single: bool = False
) -> str:
    dialect = dialects.current()
    began = dialect.after_sql(now, "-r.begun_ago")
    return f"""
        UPDATE jobs_jobqueue AS j
        SET status = 'completed', result = r.result{dialect.json_cast}, last_error = '',
            started_at = CASE
                WHEN r.begun_ago IS NULL THEN COALESCE(j.started_at, {now}) ELSE {began} END,
            completed_at = {now}, ready = false, waiting = false, admitted = false,
            live_key = NULL, lease_token = -j.lease_token, updated_at = {now}
        FROM {rows}
        WHERE j.job_id = r.id AND j.lease_token = r.token
          AND {_unawaited_sql(single=single)} {condition}
        RETURNING {returning}
    """


def _unawaited_sql(*, single: bool) -> str:
    """Return the condition that no fan-in and no batch waits for the job.

    For a `single` job it does not ask first whether any of them exists: that would cost more.
    """
    # A fan-in or batch that is being stored by another transaction is not visible here; the sweep
    # completes it (see `fan_in._add_members`).
    members = {
        ANY_MEMBER: "SELECT 1 FROM jobs_faninmember m WHERE m.firm_id = j.firm_id AND m.job_id = j.job_id",
        ANY_UNCOMPLETED: (
            "SELECT 1 FROM jobs_batchmember m"
            f" WHERE m.firm_id = j.firm_id AND m.job_id = j.job_id AND m.{UNCOMPLETED_SQL}"
        ),
    }
    return " AND ".join(
        f"NOT EXISTS ({of_job})" if single else f"(NOT EXISTS ({any_}) OR NOT EXISTS ({of_job}))"
        for any_, of_job in members.items()
    )


def mark_transaction() -> None:
    """Mark the open transaction, which a durable scope has just begun."""
    if connection.vendor == "sqlite":
        connection.connection.execute(f"SAVEPOINT {_SAVEPOINT}")


def same_transaction_sql() -> str:
    """Return a condition that holds in the transaction that was marked."""
    return SAME_TRANSACTION if connection.vendor == "postgresql" else str(int(is_marked()))


def is_marked() -> bool:
    """Say whether the open transaction is the one that was marked; SQLite only."""
    try:
        connection.connection.execute(f"RELEASE {_SAVEPOINT}")
    except sqlite3.OperationalError:
        return False
    mark_transaction()
    return True
