"""SQLite: one writer at a time, json_each, a counter row of tokens.

Every engine transaction begins IMMEDIATE (see config.settings), so it holds the write lock from its
first statement and never has to be upgraded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import OperationalError, transaction

from jobs.engine.dialects import sqlite_claim
from jobs.engine.dialects.base import Answer, Column, Dialect, Statement
from jobs.engine.dialects.claim_parameters import ClaimFilter, FirmsWithWork, Quota, Range
from jobs.engine.dialects.sqlite_cursors import ModuleCursor
from jobs.states import QUARANTINE_DEATHS

POSITION_COLUMNS = {"scheduled_at": Column.TIME, "job_id": Column.UUID}

CLAIM_SQL = """
UPDATE jobs_jobqueue AS j
SET status = 'claimed', attempts = j.attempts + 1, claimed_at = {now},
    started_at = CASE WHEN %s AND j.deaths < {alone_from} THEN {now} END,
    lease_token = r.token, worker_id = %s, updated_at = {now}
FROM {rows} WHERE j.job_id = r.job_id
RETURNING {columns}
"""


# Types that JSON does not have, or that SQLite stores differently.
CONVERTED = frozenset({Column.UUID, Column.TIME, Column.BOOLEAN})


class SqliteDialect(Dialect):
    """SQL for SQLite 3.35 and later."""

    for_update = ""
    for_no_key_update = ""
    for_key_share = ""
    skip_locked = ""
    combines_indexes = False
    json_cast = ""
    has_pipelines = False
    # Fewer than on PostgreSQL, because nobody else can write during a claim.
    largest_claim = 500
    materialized = ""
    subquery_fence = ""

    def live_now_sql(self) -> str:
        """Return the statement's time; SQLite's has milliseconds."""
        return "(strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now') || '000')"

    def time_literal(self, moment: datetime) -> str:
        """Return a text literal."""
        return f"'{_time_text(moment)}'"

    def after_sql(self, start: str, seconds: str) -> str:
        """Add by a modifier, to the millisecond."""
        return (
            f"(strftime('%%Y-%%m-%%d %%H:%%M:%%f', {start},"
            f" printf('%%+.3f seconds', {seconds})) || '000')"
        )

    def seconds_between_sql(self, start: str, end: str) -> str:
        """Subtract Julian days, precise to about 0.1 ms."""
        return f"((julianday({end}) - julianday({start})) * 86400.0)"

    def minute_sql(self, moment: str) -> str:
        """Cut to the minute."""
        return f"(strftime('%%Y-%%m-%%d %%H:%%M', {moment}) || ':00.000000')"

    def rows_sql(
        self,
        alias: str,
        columns: dict[str, Column],
        rows: Sequence[Sequence[Any]],
    ) -> Statement:
        """Return json_each over all rows as one text."""
        picks = ", ".join(
            f"json_extract(value, '$[{index}]') AS {name}" for index, name in enumerate(columns)
        )
        table = [list(row) for row in rows]
        for index, kind in enumerate(columns.values()):
            if kind in CONVERTED:
                for row in table:
                    row[index] = self.value(kind, row[index])
        return f"(SELECT {picks} FROM json_each(%s)) AS {alias}", [orjson.dumps(table).decode()]

    def value(self, column: Column, value: Any) -> Any:
        """Convert ids, times and booleans to what Django stores."""
        if value is None:
            return None
        if column is Column.UUID:
            return value.hex
        if column is Column.TIME:
            return _time_text(value)
        return int(value) if column is Column.BOOLEAN else value

    def values(self, columns: dict[str, Column], row: Sequence[Any]) -> list[Any]:
        """Convert each value."""
        return [self.value(kind, cell) for kind, cell in zip(columns.values(), row, strict=True)]

    def read_uuid(self, value: Any) -> Any:
        """Parse the 32 hex digits."""
        return None if value is None else UUID(int=int(value, 16))

    def read_time(self, value: Any) -> Any:
        """Parse the stored text, which is UTC; plain columns come parsed, without a zone."""
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC)

    def claimed_column_sql(self, column: str) -> str:
        """Return an expression, because Django's functions would parse a column of these types."""
        if column.endswith("scheduled_at"):
            return f"{column} || ''"
        return f"+{column}" if column.endswith("admitted") else column

    def is_set_sql(self, column: str) -> str:
        """Return the column itself, because SQLite evaluates IS NULL wrongly in RETURNING."""
        return column

    def read_claimed(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Parse ids, times and truth values."""
        return [self._read_claimed(row) for row in rows]

    def _read_claimed(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        job_id, *columns, due, canceled, admitted, started, waited, expires_in = row
        flags = bool(canceled), bool(admitted), bool(started)
        times = max(waited, 0.0), expires_in
        return self.read_uuid(job_id), *columns, self.read_time(due), *flags, *times

    def next_token_sql(self, rows: int = 1, number: str = "1") -> str:
        """Raise the counter by `rows`, and return the expression for each row's token."""
        return f"({self._raise_counter(rows) - rows} + {number})"

    def _raise_counter(self, count: int) -> int:
        with self.prepared_cursor() as cursor:
            cursor.execute(
                "UPDATE jobs_lease_token SET value = value + %s RETURNING value", [count]
            )
            return int(cursor.fetchone()[0])

    def json_text_sql(self, column: str) -> str:
        """Return the column: it is text."""
        return column

    def job_of_holder_sql(self, holder: str) -> str:
        """Reduce it to the hex digits that Django stores."""
        return f"replace(substr({holder}, 5), '-', '')"

    def firms_with_work(
        self, ranges: Sequence[Range], wanted: ClaimFilter, most: int
    ) -> FirmsWithWork | None:
        """Scan range by range: a statement costs no round trip."""
        found: list[tuple[int, bool]] = []
        priority = 0
        with self.prepared_cursor() as cursor:
            lanes = sqlite_claim.ready_lanes(cursor, wanted)
            for one in ranges:
                if found and (one.priority != priority or len(found) >= most):
                    break
                priority = one.priority
                rest = most - len(found)
                found += sqlite_claim.firms_in(cursor, one, lanes, wanted, rest)
        if not found:
            return None
        capped = frozenset(firm_id for firm_id, is_capped in found if is_capped)
        return FirmsWithWork(priority, [firm_id for firm_id, _ in found], capped)

    def take(
        self,
        worker_id: UUID,
        priority: int,
        quotas: Sequence[Quota],
        wanted: ClaimFilter,
        *,
        starts: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Read, then write: nobody else writes meanwhile."""
        picked: list[str] = []
        with self.prepared_cursor() as cursor:
            lanes = sqlite_claim.ready_lanes(cursor, wanted)
            for quota in quotas:
                after = self.values(POSITION_COLUMNS, quota.after)
                picked += sqlite_claim.pick(cursor, priority, quota, after, lanes, wanted)
            starts = starts and len(picked) == 1
            return self._write(cursor, picked, worker_id, starts=starts) if picked else []

    def _write(
        self, cursor: Any, job_ids: list[str], worker_id: UUID, *, starts: bool
    ) -> list[tuple[Any, ...]]:
        now = self.now_sql()
        first_token = self._raise_counter(len(job_ids)) - len(job_ids) + 1
        rows, params = self.rows_sql(
            "r",
            {"job_id": Column.TEXT, "token": Column.BIGINT},
            [(job_id, first_token + index) for index, job_id in enumerate(job_ids)],
        )
        # SQLite's RETURNING does not accept the table's alias.
        cursor.execute(
            CLAIM_SQL.format(
                now=now,
                rows=rows,
                columns=self.claimed_columns_sql(),
                alone_from=QUARANTINE_DEATHS,
            ),
            [starts, self.value(Column.UUID, worker_id), *params],
        )
        taken: list[tuple[Any, ...]] = cursor.fetchall()
        return taken

    def row_sql(self, alias: str, columns: dict[str, Column]) -> str:
        """Return it as a SELECT of parameters."""
        return f"(SELECT {', '.join(f'%s AS {name}' for name in columns)}) AS {alias}"

    def pending_work_sql(
        self, ranges: Sequence[Range], wanted: ClaimFilter, columns: Sequence[str]
    ) -> Statement | None:
        """Return nothing: lanes are scanned one statement at a time."""
        return None

    def rls_bypass_sql(self) -> str:
        """Return any row: SQLite has no row level security."""
        return "(SELECT 1) AS bypass"

    def then_end_rls_bypass_sql(self, writing: str) -> str:
        """Return the statement: SQLite has no row level security."""
        return writing

    def fetch_prepared(
        self, statements: Sequence[Statement], *, lock_timeout_ms: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one after the other."""
        rows: list[tuple[Any, ...]] = []
        with self.prepared_cursor() as cursor:
            for sql, params in statements:
                cursor.execute(sql, params)
                rows += cursor.fetchall()
        return rows

    def execute_alone(self, database: Any, statement: Statement, *, fixed: bool) -> Answer:
        """Run it by a cursor; the sqlite3 module keeps it compiled in any case."""
        with self.kept_cursor(database) as cursor:
            cursor.execute(*statement)
            return Answer(cursor.fetchall(), cursor.rowcount)

    def prepared_cursor(self) -> Any:
        """Return the sqlite3 module's cursor, which keeps compiled statements."""
        return self.kept_cursor(transaction.get_connection())

    def kept_cursor(self, database: Any) -> Any:
        """Return a new cursor, which costs next to nothing: Django's if it records statements."""
        if database.execute_wrappers or database.queries_logged:
            return database.cursor()
        return ModuleCursor(database)

    def up_longer_than_sql(self, seconds: float) -> str:
        """Return true: a file has no server that restarts."""
        return "1"

    def job_by_id_sql(self, join: str, alias: str, job_id: str) -> str:
        """Return a plain join: SQLite has nested loops only."""
        return f"{join} jobs_jobqueue {alias} ON {alias}.job_id = {job_id}"

    def is_lock_timeout(self, error: Exception) -> bool:
        """Return false: there are no row locks."""
        return False

    def is_transient(self, error: Exception) -> bool:
        """Find SQLite's words for another writer."""
        return isinstance(error, OperationalError) and any(
            word in str(error) for word in ("locked", "busy")
        )


def _time_text(moment: datetime) -> str:
    """Return the form Django stores, with all digits so that texts compare as times do."""
    # Not by strftime(), which does not pad the year.
    naive = moment.astimezone(UTC).replace(tzinfo=None)
    return naive.isoformat(sep=" ", timespec="microseconds")
