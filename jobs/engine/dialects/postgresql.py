"""PostgreSQL: row locks that skip, unnest, one sequence of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, connection

from jobs.engine.dialects.base import CLAIM_COLUMNS, ClaimRequest, Column, Dialect

# Deadlock, serialization failure, lock not available: a repeat can cure them.
TRANSIENT_STATES = frozenset({"40P01", "40001", "55P03"})

# One statement, so that two workers can never hold the same row. `turns` steps over the firms of
# one priority by the claim index, starting behind the firm served last; each gets an equal share.
# The scalar subqueries keep the planner from turning a step into a scan of the backlog.
# Each look is ordered as the claim index is, to the end: any other index would have to sort, so the
# planner never walks a firm's history by one that holds finished jobs too.
CLAIM_SQL = """
WITH picked AS MATERIALIZED (
    SELECT chosen.job_id, level.priority, chosen.turn
    FROM (VALUES (0::smallint, %s::bigint), (1::smallint, %s::bigint),
                 (2::smallint, %s::bigint), (3::smallint, %s::bigint)
    ) AS level (priority, served)
    CROSS JOIN LATERAL (
        WITH RECURSIVE ahead (firm_id) AS (
            SELECT (SELECT q.firm_id FROM jobs_jobqueue q
                    WHERE q.ready AND q.priority = level.priority AND q.firm_id > level.served
                    ORDER BY q.firm_id, q.scheduled_at LIMIT 1)
            UNION ALL
            SELECT (SELECT q.firm_id FROM jobs_jobqueue q
                    WHERE q.ready AND q.priority = level.priority AND q.firm_id > ahead.firm_id
                    ORDER BY q.firm_id, q.scheduled_at LIMIT 1)
            FROM ahead WHERE ahead.firm_id IS NOT NULL
        ), behind (firm_id) AS (
            SELECT (SELECT q.firm_id FROM jobs_jobqueue q
                    WHERE q.ready AND q.priority = level.priority AND q.firm_id <= level.served
                    ORDER BY q.firm_id, q.scheduled_at LIMIT 1)
            UNION ALL
            SELECT (SELECT q.firm_id FROM jobs_jobqueue q
                    WHERE q.ready AND q.priority = level.priority
                      AND q.firm_id > behind.firm_id AND q.firm_id <= level.served
                    ORDER BY q.firm_id, q.scheduled_at LIMIT 1)
            FROM behind WHERE behind.firm_id IS NOT NULL
        ), turns AS MATERIALIZED (
            SELECT row_number() OVER () AS turn, due.firm_id
            FROM (
                SELECT walk.firm_id
                FROM (SELECT firm_id FROM ahead UNION ALL SELECT firm_id FROM behind) AS walk
                WHERE walk.firm_id IS NOT NULL
                  AND (SELECT 1 FROM jobs_jobqueue q
                       WHERE q.ready AND q.priority = level.priority
                         AND q.firm_id = walk.firm_id AND {claimable}
                       ORDER BY q.scheduled_at, q.job_id LIMIT 1) IS NOT NULL
                LIMIT %s
            ) AS due
        )
        SELECT due.job_id, turns.turn
        FROM turns CROSS JOIN LATERAL (
            SELECT q.job_id FROM jobs_jobqueue q
            WHERE q.ready AND q.priority = level.priority AND q.firm_id = turns.firm_id
              AND {claimable}
            ORDER BY q.scheduled_at, q.job_id
            LIMIT (SELECT ceil(%s::numeric / greatest(count(*), 1)) FROM turns)
            FOR UPDATE SKIP LOCKED
        ) AS due
    ) AS chosen
    LIMIT %s
)
UPDATE jobs_jobqueue AS j
SET status = 'claimed', attempts = j.attempts + 1, claimed_at = {now}, started_at = NULL,
    lease_token = nextval('jobs_lease_token'), worker_id = %s, updated_at = {now}
FROM picked
WHERE j.job_id = picked.job_id AND picked.priority = (SELECT min(priority) FROM picked)
RETURNING {columns}, picked.turn, extract(epoch FROM {now} - j.scheduled_at)::double precision
"""


class PostgresDialect(Dialect):
    """SQL for PostgreSQL 13 and later."""

    skip_locked = "FOR UPDATE SKIP LOCKED"
    json_cast = "::jsonb"
    materialized = "MATERIALIZED"

    def live_now_sql(self) -> str:
        """Return the statement's start: stable within it, unlike the transaction's."""
        return "statement_timestamp()"

    def time_literal(self, moment: datetime) -> str:
        """Return a timestamptz literal."""
        return f"'{moment.isoformat()}'::timestamptz"

    def after_sql(self, start: str, seconds: str) -> str:
        """Add an interval."""
        return f"({start} + ({seconds}) * interval '1 second')"

    def seconds_between_sql(self, start: str, end: str) -> str:
        """Subtract times."""
        return f"extract(epoch FROM ({end}) - ({start}))::double precision"

    def minute_sql(self, moment: str) -> str:
        """Cut to the minute."""
        return f"date_trunc('minute', {moment})"

    def rows_sql(
        self, alias: str, columns: dict[str, Column], rows: Sequence[Sequence[Any]]
    ) -> tuple[str, list[Any]]:
        """Return an unnest of one array per column."""
        arrays = ", ".join(f"%s::{column.value}[]" for column in columns.values())
        names = ", ".join(columns)
        params = [[row[index] for row in rows] for index in range(len(columns))]
        return f"unnest({arrays}) AS {alias} ({names})", list(params)

    def value(self, column: Column, value: Any) -> Any:
        """Return the value as it is: psycopg adapts it."""
        return value

    def read_uuid(self, value: Any) -> Any:
        """Return the id as it is: psycopg makes it."""
        return value

    def read_time(self, value: Any) -> datetime | None:
        """Return the time as it is: psycopg makes it, in the connection's zone (UTC)."""
        return value  # type: ignore[no-any-return]  # psycopg's rows are untyped

    def draw_token_sql(self) -> str:
        """Return a call of the sequence: it needs no statement of its own."""
        return "nextval('jobs_lease_token')"

    def json_text_sql(self, column: str) -> str:
        """Cast: psycopg would parse jsonb."""
        return f"{column}::text"

    def job_of_holder_sql(self, holder: str) -> str:
        """Cut and cast."""
        return f"substr({holder}, 5)::uuid"

    def claim(self, request: ClaimRequest) -> list[tuple[Any, ...]]:
        """Claim in one statement."""
        now = self.now_sql()
        claimable = (
            f"q.status = 'pending' AND q.scheduled_at <= {now}"
            f" AND (q.expires_at IS NULL OR q.expires_at > {now})"
            " AND q.attempts < q.max_attempts"
        )
        filters: list[Any] = []
        for column, wanted in (
            ("category", request.categories),
            ("job_type", request.job_types),
        ):
            if wanted:
                claimable += f" AND q.{column} = ANY(%s)"
                filters.append(list(wanted))
        columns = ", ".join(
            f"j.{column}::text" if column == "payload" else f"j.{column}"
            for column in CLAIM_COLUMNS
        )
        limit = request.limit
        params = [
            *(request.cursors.get(priority, 0) for priority in range(4)),
            *filters,
            limit,
            *filters,
            limit,
            limit,
            request.worker_id,
        ]
        with connection.cursor() as cursor:
            cursor.execute(CLAIM_SQL.format(now=now, claimable=claimable, columns=columns), params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def database_is_settled_sql(self, seconds: float) -> str:
        """Compare with the server's start."""
        return f"(now() - pg_postmaster_start_time()) > {float(seconds)} * interval '1 second'"

    def is_transient(self, error: Exception) -> bool:
        """Look at the SQLSTATE."""
        if not isinstance(error, OperationalError | InterfaceError):
            return False
        return getattr(error.__cause__, "sqlstate", None) in TRANSIENT_STATES
