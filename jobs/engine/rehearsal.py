"""Claims a dead job for a rehearsal, and reads what the rehearsal would leave behind.

All of it runs in the rehearsal's transaction, which is rolled back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection
from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.claim import Claim, read_claims
from jobs.engine.dialects import Column
from jobs.engine.fan_in_rows import fan_in_columns_sql, read_fan_in
from jobs.engine.new_job import NewJob
from jobs.engine.redaction import redact_secrets
from jobs.engine.requeue import Restart
from jobs.engine.transactions import fetch, in_transaction
from jobs.states import RETRYABLE, Status

MOST_CHILDREN = 100
# PostgreSQL refuses to commit a transaction that has violated this constraint. Otherwise a handler
# that runs COMMIT by SQL would commit the rehearsal.
NEVER_COMMITS = """
    CREATE TEMPORARY TABLE rehearsal (one integer UNIQUE DEFERRABLE INITIALLY DEFERRED)
        ON COMMIT DROP;
    INSERT INTO rehearsal VALUES (1), (1)
"""
KINDS = ("inserted", "updated", "deleted")


def refuse_commit(seconds: float, lock_seconds: float) -> None:
    """Keep the open transaction from being committed, and let no statement take longer than this.

    Does nothing on SQLite, where a rehearsal runs on a copy of the database.
    """
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(NEVER_COMMITS)
        cursor.execute(
            "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true)",
            [f"{seconds * 1000:.0f}ms", f"{lock_seconds * 1000:.0f}ms"],
        )


def claim_dead(job_id: UUID, change: Restart) -> Claim | None:
    """Claim a job as for the first attempt after a reprocess; None if it cannot be restarted.

    The claim ignores locks and limits, and does not take the job's idempotency key.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    worker_id = uuid7()

    def take() -> list[tuple[Any, ...]]:
        return fetch(
            f"""
            UPDATE jobs_jobqueue
            SET status = 'processing', series = series + 1, attempts = 1, deaths = 0,
                lease_token = {dialect.next_token_sql()}, worker_id = %s,
                claimed_at = {now}, started_at = {now}, updated_at = {now}, scheduled_at = {now},
                completed_at = NULL, cancel_requested_at = NULL, expires_at = NULL, result = NULL,
                payload = COALESCE(%s{dialect.json_cast}, payload),
                payload_version = COALESCE(%s, payload_version)
            WHERE job_id = %s AND status IN ({dialects.statuses_sql(RETRYABLE)})
            RETURNING {dialect.claimed_columns_sql()}
            """,
            [
                dialect.value(Column.UUID, worker_id),
                change.payload,
                change.payload_version,
                dialect.value(Column.UUID, job_id),
            ],
        )

    asked_at = time.monotonic()
    rows = in_transaction(take)
    return next(iter(read_claims(dialect, rows, worker_id, asked_at)), None)


def children_since(claim: Claim, first: UUID) -> list[dict[str, Any]]:
    """Return the jobs with ids from `first` on that this job has enqueued, secrets redacted."""
    dialect = dialects.current()
    ids = [dialect.value(Column.UUID, one) for one in (first, claim.job_id)]
    rows = in_transaction(
        lambda: fetch(
            f"""
            SELECT c.job_type, f.slug, {dialect.json_text_sql("c.payload")}, c.priority,
                c.scheduled_at, c.lock_key, c.idempotency_key
            FROM jobs_jobqueue c JOIN tenants_firm f ON f.id = c.firm_id
            WHERE c.job_id >= %s AND c.parent_id = %s ORDER BY c.job_id LIMIT {MOST_CHILDREN}
            """,
            ids,
        )
    )
    return [
        {
            "job_type": job_type,
            "firm": firm,
            "payload": redact_secrets(json.loads(payload)),
            "priority": priority,
            "scheduled_at": dialect.read_time(due),
            "after": None,
            "lock_key": lock_key,
            "idempotency_key": key,
        }
        for job_type, firm, payload, priority, due, lock_key, key in rows
    ]


def followers_since(claim: Claim, first: UUID, *, completed: bool) -> list[dict[str, Any]]:
    """Return the jobs that would be enqueued later, secrets redacted.

    They follow the children with ids from `first` on, or, if this job is `completed`, itself.
    """
    dialect = dialects.current()
    first_id, job_id = (dialect.value(Column.UUID, one) for one in (first, claim.job_id))
    rows = in_transaction(
        lambda: fetch(
            f"""
            SELECT t.slug, f.only_completed, p.job_type, {fan_in_columns_sql()}
            FROM jobs_fanin f JOIN tenants_firm t ON t.id = f.firm_id
            JOIN jobs_jobqueue p ON p.job_id = f.parent_id
            WHERE f.firm_id = %s AND f.fired_at IS NULL AND (
                f.parent_id = %s AND (f.id >= %s OR f.only_completed AND %s)
                OR f.parent_id IN (
                    SELECT c.job_id FROM jobs_jobqueue c WHERE c.job_id >= %s AND c.parent_id = %s))
            ORDER BY f.id LIMIT {MOST_CHILDREN}
            """,
            [
                claim.firm_id,
                *(job_id, first_id, dialect.value(Column.BOOLEAN, completed)),
                *(first_id, job_id),
            ],
        )
    )
    found = []
    for firm, only_completed, parent_type, *row in rows:
        _, then, rest = read_fan_in(row)
        before = "this job" if then.parent_id == claim.job_id else parent_type
        after = f"{before} is completed" if only_completed else "its children are settled"
        for job in [then, *rest]:
            found.append(_follower(job, firm, after))
            after = f"{job.job_type} is completed"
    return found[:MOST_CHILDREN]


def _follower(job: NewJob, firm: str, after: str) -> dict[str, Any]:
    return {
        "job_type": job.job_type,
        "firm": firm,
        "payload": redact_secrets(json.loads(job.payload)),
        "priority": job.priority,
        "scheduled_at": None,
        "after": after,
        "lock_key": job.lock_key,
        "idempotency_key": job.idempotency_key,
    }


def completed_result(claim: Claim) -> tuple[Any] | None:
    """Return the result with which the handler completed the job in its own transaction, if it did."""
    dialect = dialects.current()
    rows = in_transaction(
        lambda: fetch(
            f"SELECT {dialect.json_text_sql('result')} FROM jobs_jobqueue"
            " WHERE job_id = %s AND status = %s",
            [dialect.value(Column.UUID, claim.job_id), Status.COMPLETED.value],
        )
    )
    return (json.loads(rows[0][0]),) if rows else None


def watch_writes(tables: Sequence[str]) -> None:
    """Begin to count what the open transaction writes to these tables; see `written_rows`."""
    if connection.vendor == "postgresql":
        # PostgreSQL's own statistics count the writes.
        return
    with connection.cursor() as cursor:
        # Triggers are not allowed on virtual tables (a full-text index), on the tables behind them,
        # and on SQLite's own tables, such as the statistics that ANALYZE stores.
        cursor.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT GLOB 'sqlite_*'"
        )
        ordinary = {name for (name,) in cursor.fetchall()}
        cursor.execute("CREATE TEMP TABLE rehearsal_writes (name text, kind text)")
        for table in filter(ordinary.__contains__, tables):
            name = connection.ops.quote_name(table)
            for kind, event in zip(KINDS, ("INSERT", "UPDATE", "DELETE"), strict=True):
                trigger = connection.ops.quote_name(f"rehearsal_{kind}_{table}")
                cursor.execute(
                    f"CREATE TEMP TRIGGER {trigger} AFTER {event} ON main.{name} BEGIN"
                    f" INSERT INTO rehearsal_writes VALUES ('{table}', '{kind}'); END"
                )


def written_rows() -> Mapping[str, Mapping[str, int]]:
    """Return how many rows of each table the open transaction has written, by kind, up to now.

    Rows that a rolled back savepoint wrote are counted on PostgreSQL, and not on SQLite.
    """
    if connection.vendor == "postgresql":
        sql = """
            SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables
            WHERE schemaname = current_schema() AND n_tup_ins + n_tup_upd + n_tup_del > 0
        """
    else:
        counts = ", ".join(f"count(*) FILTER (WHERE kind = '{kind}')" for kind in KINDS)
        sql = f"SELECT name, {counts} FROM rehearsal_writes GROUP BY name"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return {name: dict(zip(KINDS, counts, strict=True)) for name, *counts in cursor.fetchall()}
