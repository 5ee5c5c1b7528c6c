"""PostgreSQL: row locks that skip, unnest, one sequence of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection
from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg.pq import Format

from jobs.engine.dialects.base import (
    CLAIM_COLUMNS,
    Claimable,
    Column,
    Dialect,
    Share,
    Walk,
)
from tenants.scope import ENGINE_SETTING

LOCK_NOT_AVAILABLE = "55P03"
# Deadlock, serialization failure, lock not available: a repeat can cure them.
TRANSIENT_STATES = frozenset({"40P01", "40001", LOCK_NOT_AVAILABLE})

# Where a text for each value costs most.
BINARY_COLUMNS = frozenset({Column.UUID, Column.BIGINT, Column.FLOAT, Column.TEXT})

# Steps over the firms by the claim index, leg after leg, until enough have work or the priority of
# those who have is behind. OFFSET 0 keeps each part from being worked into the next: a step is asked
# once, and compares with plain values, which is all that row level security lets into an index
# condition. As scalar subqueries, step and look cannot turn into a scan of the backlog. Each is
# ordered as the claim index is, to the end: any other index would have to sort, so the planner never
# walks a firm's history by one that holds finished jobs too.
FIRMS_SQL = """
WITH RECURSIVE legs AS (
    SELECT %s::smallint[] AS priority, %s::bigint[] AS after, %s::bigint[] AS until
), walk (leg, priority, firm_id, has_work, met) AS (
    SELECT 1, legs.priority[1], legs.after[1], false, false FROM legs
    UNION ALL
    SELECT next.leg, next.priority, step.firm_id, look.has_work, walk.met OR look.has_work
    FROM walk CROSS JOIN LATERAL (
        SELECT here.leg, legs.priority[here.leg], legs.until[here.leg],
               coalesce(walk.firm_id, legs.after[here.leg])
        FROM legs, (SELECT walk.leg + (walk.firm_id IS NULL)::integer) AS here (leg)
        OFFSET 0
    ) AS next (leg, priority, until, after)
    CROSS JOIN LATERAL (
        SELECT (SELECT q.firm_id FROM jobs_jobqueue q
                WHERE q.ready AND q.priority = next.priority
                  AND q.firm_id > next.after AND q.firm_id <= next.until
                ORDER BY q.firm_id, q.scheduled_at LIMIT 1)
        OFFSET 0
    ) AS step (firm_id)
    CROSS JOIN LATERAL (
        SELECT (SELECT 1 FROM jobs_jobqueue q
                WHERE q.ready AND q.priority = next.priority
                  AND q.firm_id = step.firm_id AND {claimable}
                ORDER BY q.scheduled_at, q.job_id LIMIT 1) IS NOT NULL
        OFFSET 0
    ) AS look (has_work)
    WHERE next.priority IS NOT NULL AND (next.priority = walk.priority OR NOT walk.met)
)
SELECT priority, firm_id FROM walk WHERE has_work LIMIT %s
"""

CLAIM_SQL = """
WITH picked AS MATERIALIZED (
    SELECT due.job_id
    FROM unnest(%s::bigint[], %s::integer[]) AS share (firm_id, jobs)
    CROSS JOIN LATERAL (
        SELECT q.job_id FROM jobs_jobqueue q
        WHERE q.ready AND q.priority = %s AND q.firm_id = share.firm_id AND {claimable}
        ORDER BY q.scheduled_at, q.job_id
        LIMIT share.jobs
        FOR UPDATE SKIP LOCKED
    ) AS due
    LIMIT %s
)
UPDATE jobs_jobqueue AS j
SET status = 'claimed', attempts = j.attempts + 1, claimed_at = {now}, started_at = NULL,
    lease_token = nextval('jobs_lease_token'), worker_id = %s, updated_at = {now}
FROM picked
WHERE j.job_id = picked.job_id
RETURNING {columns}, extract(epoch FROM {now} - j.scheduled_at)::double precision
"""


class PostgresDialect(Dialect):
    """SQL for PostgreSQL 13 and later."""

    for_update = "FOR UPDATE"
    for_no_key_update = "FOR NO KEY UPDATE"
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
        params = [[row[index] for row in rows] for index in range(len(columns))]
        arrays = ", ".join(
            f"{'%b' if _travels_binary(column, values) else '%s'}::{column.value}[]"
            for column, values in zip(columns.values(), params, strict=True)
        )
        return f"unnest({arrays}) AS {alias} ({', '.join(columns)})", list(params)

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

    def firms_with_work(
        self, walks: Sequence[Walk], claimable: Claimable, most: int
    ) -> tuple[int, list[int]] | None:
        """Walk in one statement."""
        sql, params = _firms(walks, claimable, most)
        with self.hot_cursor() as cursor:
            cursor.execute(sql, params)
            found = cursor.fetchall()
        return (found[0][0], [firm_id for _, firm_id in found]) if found else None

    def take(
        self, worker_id: UUID, priority: int, shares: Sequence[Share], claimable: Claimable
    ) -> list[tuple[Any, ...]]:
        """Take in one statement."""
        columns = ", ".join(
            f"j.{column}::text" if column == "payload" else f"j.{column}"
            for column in CLAIM_COLUMNS
        )
        params = [
            [share.firm_id for share in shares],
            [share.jobs for share in shares],
            priority,
            *claimable.params,
            sum(share.jobs for share in shares),
            worker_id,
        ]
        sql = CLAIM_SQL.format(claimable=claimable.sql, now=self.now_sql(), columns=columns)
        with self.hot_cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def row_sql(
        self, alias: str, columns: dict[str, Column], row: Sequence[Any]
    ) -> tuple[str, list[Any]]:
        """Return it as VALUES: an array for each column takes longer to make."""
        values = ", ".join(f"%s::{column.value}" for column in columns.values())
        return f"(VALUES ({values})) AS {alias} ({', '.join(columns)})", list(row)

    def outlook_sql(
        self, walks: Sequence[Walk], claimable: Claimable, conditions: Sequence[str]
    ) -> tuple[str, list[Any]] | None:
        """Return one SELECT."""
        firms, params = _firms(walks, claimable, 1)
        answers = ", ".join([f"EXISTS ({firms})", *conditions])
        return f"SELECT {answers} FROM {self.engine_wall_sql('wall')}", params

    def engine_wall_sql(self, alias: str) -> str:
        """Set it for the statement. What reads it is asked later: it needs a row to look at."""
        return f"(SELECT set_config('{ENGINE_SETTING}', 'on', true) OFFSET 0) AS {alias}"

    def hot_cursor(self) -> Any:
        """Return one that binds on the server, and prepares what DATABASES allows it to."""
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        # As connection.cursor() does it, whose class is the same for every statement.
        cursor: Any = cast("Any", ServerBindingCursor)(connection.connection)
        cursor.format = Format.BINARY
        if connection.queries_logged:
            return connection.make_debug_cursor(cursor)
        return connection.make_cursor(cursor)

    def database_is_settled_sql(self, seconds: float) -> str:
        """Compare with the server's start."""
        return f"(now() - pg_postmaster_start_time()) > {float(seconds)} * interval '1 second'"

    def job_by_id_sql(self, join: str, alias: str, job_id: str) -> str:
        """Keep the look apart, or it becomes a join by hash with a scan of all jobs.

        The id has to be there before: row level security lets no index be asked for the result of
        a subquery.
        """
        job = "SELECT * FROM jobs_jobqueue j WHERE j.job_id = wanted.id LIMIT 1"
        return (
            f"{join} LATERAL (SELECT j.* FROM (SELECT {job_id} AS id OFFSET 0) AS wanted"
            f" CROSS JOIN LATERAL ({job}) AS j) AS {alias} ON true"
        )

    def give_up_on_locks_after(self, milliseconds: int) -> None:
        """Set it for the transaction."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{milliseconds}ms"])

    def gave_up(self, error: Exception) -> bool:
        """Look at the SQLSTATE."""
        return getattr(error.__cause__, "sqlstate", None) == LOCK_NOT_AVAILABLE

    def is_transient(self, error: Exception) -> bool:
        """Look at the SQLSTATE."""
        if not isinstance(error, OperationalError | InterfaceError):
            return False
        return getattr(error.__cause__, "sqlstate", None) in TRANSIENT_STATES


def _firms(walks: Sequence[Walk], claimable: Claimable, most: int) -> tuple[str, list[Any]]:
    legs = [leg for walk in walks for leg in walk.legs]
    params = [
        [leg.priority for leg in legs],
        [leg.after for leg in legs],
        [leg.until for leg in legs],
        *claimable.params,
        most,
    ]
    return FIRMS_SQL.format(claimable=claimable.sql), params


def _travels_binary(column: Column, values: list[Any]) -> bool:
    """Say whether an array may be sent in binary: it says of what only where it holds something."""
    return column in BINARY_COLUMNS and bool(values) and None not in values
