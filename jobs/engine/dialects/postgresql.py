"""PostgreSQL: SKIP LOCKED, arrays, pipelines, a sequence of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)
from psycopg.pq import TransactionStatus

from jobs.conf import lease_seconds
from jobs.engine.dialects import postgresql_claim, postgresql_cursors
from jobs.engine.dialects.base import PLANNER_SETTINGS, Answer, Column, Dialect, Statement
from jobs.engine.dialects.claim_parameters import ClaimFilter, FirmsWithWork, Quota, Range
from jobs.engine.dialects.postgresql_cursors import connect
from jobs.engine.dialects.postgresql_pipeline import Pipeline
from tenants.local_settings import ENGINE_SETTING

LOCK_NOT_AVAILABLE = "55P03"
# Deadlock, serialization failure, lock not available: a repeat can cure them.
TRANSIENT_STATES = frozenset({"40P01", "40001", LOCK_NOT_AVAILABLE})

# psycopg refuses an array of mixed types, as of an int and an IntEnum.
NUMBERS: dict[Column, type[int] | type[float]] = {
    Column.BIGINT: int,
    Column.INTEGER: int,
    Column.FLOAT: float,
}

HAS_TRANSACTION_TIMEOUT = 170_000


@lru_cache(maxsize=4)
def _opening_sql(
    server_version: int, timeout_seconds: float, lock_timeout_ms: int | None = None
) -> str:
    """Return the first statement of a pipeline: the settings of its transaction."""
    settings = {ENGINE_SETTING: "on", **PLANNER_SETTINGS}
    if lock_timeout_ms is not None:
        settings["lock_timeout"] = f"{lock_timeout_ms}ms"
    if server_version >= HAS_TRANSACTION_TIMEOUT:
        # Otherwise a frozen process would keep its row locks: inside a pipeline a transaction is
        # not idle, so idle_in_transaction_session_timeout does not end it.
        settings["transaction_timeout"] = f"{timeout_seconds * 1000:.0f}ms"
    calls = (f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    return f"SELECT {', '.join(calls)}"


def _is_watched(database: Any) -> bool:
    """Say whether statements are logged or wrapped, which only Django's cursors do."""
    return bool(database.queries_logged or database.execute_wrappers)


def _pipeline(database: Any) -> Pipeline:
    """Return the connection's pipeline, which knows what is prepared there.

    It is kept with psycopg's connection, because Django's may take another from a pool, and later
    this one again.
    """
    client = database.connection
    kept: Pipeline | None = getattr(client, "engine_pipeline", None)
    if kept is None:
        kept = client.engine_pipeline = Pipeline(client)
    return kept


class PostgresDialect(Dialect):
    """SQL for PostgreSQL 13 and later."""

    for_update = "FOR UPDATE"
    for_no_key_update = "FOR NO KEY UPDATE"
    for_key_share = "FOR KEY SHARE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    combines_indexes = True
    json_cast = "::jsonb"
    materialized = "MATERIALIZED"
    subquery_fence = "OFFSET 0"
    has_pipelines = True
    # A claim of this size takes about 20 ms.
    largest_claim = 2000

    def live_now_sql(self) -> str:
        """Return the statement's start, which is the same throughout the statement."""
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
        self,
        alias: str,
        columns: dict[str, Column],
        rows: Sequence[Sequence[Any]],
    ) -> Statement:
        """Return a subquery that unnests one array per column; binary, which psycopg makes faster.

        In a FROM clause the server would store the elements of each array before it reads them.
        """
        params: list[list[Any]] = [[row[index] for row in rows] for index in range(len(columns))]
        for index, column in enumerate(columns.values()):
            number = NUMBERS.get(column)
            if number is not None:
                params[index] = [None if one is None else number(one) for one in params[index]]
        arrays = ", ".join(f"unnest(%b::{column}[]) AS {name}" for name, column in columns.items())
        return f"(SELECT {arrays}) AS {alias}", params

    def value(self, column: Column, value: Any) -> Any:
        """Return the value: psycopg adapts it."""
        return value

    def values(self, columns: dict[str, Column], row: Sequence[Any]) -> list[Any]:
        """Return the values: psycopg adapts them."""
        return list(row)

    def read_uuid(self, value: Any) -> Any:
        """Return the id: psycopg parses it."""
        return value

    def read_time(self, value: Any) -> Any:
        """Return the time: psycopg parses it, in the connection's zone (UTC)."""
        return value

    def is_set_sql(self, column: str) -> str:
        """Ask whether it is NULL."""
        return f"{column} IS NOT NULL"

    def read_claimed(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the rows: psycopg parses them."""
        return [row if row[-2] >= 0 else (*row[:-2], 0.0, row[-1]) for row in rows]

    def next_token_sql(self, rows: int = 1, number: str = "1") -> str:
        """Return a call of the sequence."""
        return "nextval('jobs_lease_token')"

    def json_text_sql(self, column: str) -> str:
        """Cast: psycopg would parse jsonb itself."""
        return f"{column}::text"

    def job_of_holder_sql(self, holder: str) -> str:
        """Cut and cast."""
        return f"substr({holder}, 5)::uuid"

    def firms_with_work(
        self, ranges: Sequence[Range], wanted: ClaimFilter, most: int
    ) -> FirmsWithWork | None:
        """Scan in one statement."""
        found = self.fetch_prepared([postgresql_claim.scan(ranges, wanted, most)])
        if not found:
            return None
        capped = frozenset(firm_id for _, firm_id, is_capped in found if is_capped)
        return FirmsWithWork(found[0][0], [firm_id for _, firm_id, _ in found], capped)

    def take(
        self,
        worker_id: UUID,
        priority: int,
        quotas: Sequence[Quota],
        wanted: ClaimFilter,
        *,
        starts: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Take in one statement, and in one more where firms have a cap."""
        statements = []
        # Each statement counts only the jobs that it takes itself.
        starts = starts and len({quota.capped for quota in quotas}) == 1
        for capped in (False, True):
            same = [quota for quota in quotas if quota.capped is capped]
            if same:
                values = [(quota.firm_id, quota.jobs, *quota.after) for quota in same]
                table = self.rows_sql("firm", postgresql_claim.QUOTA_COLUMNS, values)
                now, columns = self.now_sql(), self.claimed_columns_sql("j.")
                statements.append(
                    postgresql_claim.take(
                        worker_id, priority, same, table, wanted, now, columns, starts
                    )
                )
        return self.fetch_prepared(statements)

    def fetch_prepared(
        self, statements: Sequence[Statement], *, lock_timeout_ms: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Send all statements before reading any result."""
        # The proxy `connection` would look up the connection at each attribute.
        database: Any = connections[DEFAULT_DB_ALIAS]
        if database.in_atomic_block:
            return self._fetch_each(statements)
        connect(database)
        version = database.connection.info.server_version
        opening: Statement = _opening_sql(version, lease_seconds(), lock_timeout_ms), []
        if _is_watched(database):
            with transaction.atomic():
                return self._fetch_each([opening, *statements])[1:]
        with database.wrap_database_errors:
            _, *answers = _pipeline(database).run([opening, *statements])
        return [row for answer in answers for row in answer.rows]

    def execute_alone(self, database: Any, statement: Statement, *, fixed: bool) -> Answer:
        """Bypass Django's and psycopg's cursors, which take longer than all the rest, if possible.

        It is not possible in a transaction: prepared statements may be deallocated there, and one
        error ends it.
        """
        connect(database)
        is_idle = database.connection.info.transaction_status == TransactionStatus.IDLE
        if fixed and is_idle and database.autocommit and not _is_watched(database):
            with database.wrap_database_errors:
                return _pipeline(database).run([statement])[0]
        cursor = self.kept_cursor(database)
        cursor.execute(*statement)
        rows = cursor.fetchall() if cursor.description else []
        return Answer(rows, cursor.rowcount)

    def _fetch_each(self, statements: Sequence[Statement]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for sql, params in statements:
            cursor = self.prepared_cursor()
            cursor.execute(sql, params)
            rows += cursor.fetchall()
        return rows

    def row_sql(self, alias: str, columns: dict[str, Column]) -> str:
        """Return VALUES: an array for each column would take longer to make."""
        values = ", ".join(f"%s::{column}" for column in columns.values())
        return f"(VALUES ({values})) AS {alias} ({', '.join(columns)})"

    def pending_work_sql(
        self, ranges: Sequence[Range], wanted: ClaimFilter, columns: Sequence[str]
    ) -> Statement | None:
        """Return one SELECT."""
        firms, params = postgresql_claim.scan(ranges, wanted, 1)
        answers = ", ".join([f"EXISTS ({firms})", *columns])
        return f"SELECT {answers}", params

    def rls_bypass_sql(self) -> str:
        """Set the bypass; OFFSET 0 keeps conditions from being evaluated before it."""
        return f"(SELECT set_config('{ENGINE_SETTING}', 'on', true) OFFSET 0) AS bypass"

    def then_end_rls_bypass_sql(self, writing: str) -> str:
        """Count the rows first: the bypass cannot end before the last is written."""
        return (
            f"WITH written AS ({writing}) SELECT set_config('{ENGINE_SETTING}', 'off', true)"
            " FROM (SELECT count(*) FROM written OFFSET 0) AS counted"
        )

    def prepared_cursor(self) -> Any:
        """Return a cursor that binds on the server, and prepares where DATABASES allows it."""
        # The proxy `connection` would look up the connection at each attribute.
        return postgresql_cursors.prepared_cursor(connections[DEFAULT_DB_ALIAS])

    def kept_cursor(self, database: Any) -> Any:
        """Return the cursor that the connection keeps."""
        return postgresql_cursors.kept_cursor(database)

    def up_longer_than_sql(self, seconds: float) -> str:
        """Compare with the server's start."""
        return f"(now() - pg_postmaster_start_time()) > {float(seconds)} * interval '1 second'"

    def job_by_id_sql(self, join: str, alias: str, job_id: str) -> str:
        """Return a lateral join, which cannot become a hash join over a scan of all jobs.

        The id is computed before it: under row level security an index condition cannot contain a
        subquery.
        """
        job = "SELECT * FROM jobs_jobqueue j WHERE j.job_id = wanted.id LIMIT 1"
        return (
            f"{join} LATERAL (SELECT j.* FROM (SELECT {job_id} AS id OFFSET 0) AS wanted"
            f" CROSS JOIN LATERAL ({job}) AS j) AS {alias} ON true"
        )

    def is_lock_timeout(self, error: Exception) -> bool:
        """Compare the SQLSTATE."""
        return getattr(error.__cause__, "sqlstate", None) == LOCK_NOT_AVAILABLE

    def is_transient(self, error: Exception) -> bool:
        """Compare the SQLSTATE."""
        if not isinstance(error, OperationalError | InterfaceError):
            return False
        return getattr(error.__cause__, "sqlstate", None) in TRANSIENT_STATES
