"""SQLite: one writer at a time, json_each, a counter row of tokens.

Every engine transaction begins IMMEDIATE (see config.settings), so it holds the write lock from its
first statement and never has to be upgraded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction

from jobs.engine.dialects.base import CLAIM_COLUMNS, ClaimRequest, Column, Dialect

# The form Django stores, always with six digits so that texts compare as times do.
TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f"

STEP_SQL = """(SELECT q.firm_id FROM jobs_jobqueue q
    WHERE q.ready AND q.priority = %s AND q.firm_id > {after} AND q.firm_id <= {last}
    ORDER BY q.firm_id LIMIT 1)"""

# The firms of one priority that have a job due, in turn: first those behind `served`.
TURNS_SQL = """
WITH RECURSIVE ahead (firm_id) AS (
    SELECT {ahead_first} UNION ALL SELECT {ahead_next} FROM ahead WHERE ahead.firm_id IS NOT NULL
), behind (firm_id) AS (
    SELECT {behind_first} UNION ALL SELECT {behind_next} FROM behind WHERE behind.firm_id IS NOT NULL
)
SELECT walk.firm_id
FROM (SELECT firm_id FROM ahead UNION ALL SELECT firm_id FROM behind) AS walk
WHERE walk.firm_id IS NOT NULL
  AND (SELECT 1 FROM jobs_jobqueue q
       WHERE q.ready AND q.priority = %s AND q.firm_id = walk.firm_id AND {claimable} LIMIT 1)
LIMIT %s
"""

PICK_SQL = """
SELECT q.job_id FROM jobs_jobqueue q
WHERE q.ready AND q.priority = %s AND q.firm_id = %s AND {claimable}
ORDER BY q.scheduled_at, q.job_id LIMIT %s
"""

CLAIM_SQL = """
UPDATE jobs_jobqueue AS j
SET status = 'claimed', attempts = j.attempts + 1, claimed_at = {now}, started_at = NULL,
    lease_token = r.token, worker_id = %s, updated_at = {now}
FROM {rows} WHERE j.job_id = r.job_id
RETURNING {columns}, {waited}
"""

LAST_FIRM = 2**63 - 1


class SqliteDialect(Dialect):
    """SQL for SQLite 3.35 and later."""

    skip_locked = ""
    json_cast = ""
    materialized = ""

    def live_now_sql(self) -> str:
        """Return the statement's time, to the millisecond SQLite knows."""
        return "(strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now') || '000')"

    def time_literal(self, moment: datetime) -> str:
        """Return a text literal."""
        return f"'{moment.astimezone(UTC).strftime(TIME_FORMAT)}'"

    def after_sql(self, start: str, seconds: str) -> str:
        """Shift by a modifier; it keeps milliseconds."""
        return (
            f"(strftime('%%Y-%%m-%%d %%H:%%M:%%f', {start},"
            f" printf('%%+.3f seconds', {seconds})) || '000')"
        )

    def seconds_between_sql(self, start: str, end: str) -> str:
        """Subtract Julian days, which hold about 0.1 ms."""
        return f"((julianday({end}) - julianday({start})) * 86400.0)"

    def minute_sql(self, moment: str) -> str:
        """Cut to the minute."""
        return f"(strftime('%%Y-%%m-%%d %%H:%%M', {moment}) || ':00.000000')"

    def rows_sql(
        self, alias: str, columns: dict[str, Column], rows: Sequence[Sequence[Any]]
    ) -> tuple[str, list[Any]]:
        """Return json_each over one text of all rows."""
        picks = ", ".join(
            f"json_extract(value, '$[{index}]') AS {name}" for index, name in enumerate(columns)
        )
        kinds = list(columns.values())
        table = [
            [self.value(kind, cell) for kind, cell in zip(kinds, row, strict=True)] for row in rows
        ]
        return f"(SELECT {picks} FROM json_each(%s)) AS {alias}", [json.dumps(table)]

    def value(self, column: Column, value: Any) -> Any:
        """Spell ids, times and truth the way Django stores them."""
        if value is None:
            return None
        if column is Column.UUID:
            return value.hex
        if column is Column.TIME:
            return value.astimezone(UTC).strftime(TIME_FORMAT)
        return int(value) if column is Column.BOOLEAN else value

    def read_uuid(self, value: Any) -> Any:
        """Parse the 32 hex digits."""
        return None if value is None else UUID(hex=value)

    def read_time(self, value: Any) -> datetime | None:
        """Parse the stored text; it is UTC. Plain columns come parsed already, without a zone."""
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC)

    def draw_token_sql(self) -> str:
        """Raise the counter by one and return a look at it."""
        self._raise_counter(1)
        return "(SELECT value FROM jobs_lease_token)"

    def _raise_counter(self, count: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE jobs_lease_token SET value = value + %s RETURNING value", [count]
            )
            return int(cursor.fetchone()[0])

    def json_text_sql(self, column: str) -> str:
        """Return the column: it is text."""
        return column

    def job_of_holder_sql(self, holder: str) -> str:
        """Cut to the hex digits Django stores."""
        return f"replace(substr({holder}, 5), '-', '')"

    def claim(self, request: ClaimRequest) -> list[tuple[Any, ...]]:
        """Look, then take, in one transaction that nobody else writes beside."""
        now = self.now_sql()
        claimable, filters = self._claimable(request, now)
        with transaction.atomic(), connection.cursor() as cursor:
            for priority in range(4):
                served = request.cursors.get(priority, 0)
                cursor.execute(
                    self._turns_sql(claimable),
                    [
                        *(priority, served, LAST_FIRM, priority, LAST_FIRM),
                        *(priority, 0, served, priority, served),
                        *(priority, *filters, request.limit),
                    ],
                )
                firms = [row[0] for row in cursor.fetchall()]
                picked = self._pick(cursor, priority, firms, claimable, filters, request.limit)
                if picked:
                    return self._take(cursor, picked, request, now)
        return []

    def _claimable(self, request: ClaimRequest, now: str) -> tuple[str, list[Any]]:
        sql = (
            f"q.status = 'pending' AND q.scheduled_at <= {now}"
            f" AND (q.expires_at IS NULL OR q.expires_at > {now})"
            " AND q.attempts < q.max_attempts"
        )
        filters: list[Any] = []
        for column, wanted in (("category", request.categories), ("job_type", request.job_types)):
            if wanted:
                sql += f" AND q.{column} IN ({', '.join(['%s'] * len(wanted))})"
                filters.extend(wanted)
        return sql, filters

    def _turns_sql(self, claimable: str) -> str:
        step = STEP_SQL.format
        return TURNS_SQL.format(
            ahead_first=step(after="%s", last="%s"),
            ahead_next=step(after="ahead.firm_id", last="%s"),
            behind_first=step(after="%s", last="%s"),
            behind_next=step(after="behind.firm_id", last="%s"),
            claimable=claimable,
        )

    def _pick(
        self,
        cursor: Any,
        priority: int,
        firms: list[int],
        claimable: str,
        filters: list[Any],
        limit: int,
    ) -> list[tuple[str, int]]:
        """Return (job id, turn) of each job to take: an equal share for every firm."""
        picked: list[tuple[str, int]] = []
        share = -(-limit // max(len(firms), 1))
        for turn, firm_id in enumerate(firms, 1):
            room = min(share, limit - len(picked))
            if room <= 0:
                break
            cursor.execute(
                PICK_SQL.format(claimable=claimable), [priority, firm_id, *filters, room]
            )
            picked.extend((row[0], turn) for row in cursor.fetchall())
        return picked

    def _take(
        self, cursor: Any, picked: list[tuple[str, int]], request: ClaimRequest, now: str
    ) -> list[tuple[Any, ...]]:
        first_token = self._raise_counter(len(picked)) - len(picked) + 1
        rows, params = self.rows_sql(
            "r",
            {"job_id": Column.TEXT, "token": Column.BIGINT},
            [(job_id, first_token + index) for index, (job_id, _) in enumerate(picked)],
        )
        turns = dict(picked)
        # SQLite's RETURNING knows only the updated table, and not its alias.
        cursor.execute(
            CLAIM_SQL.format(
                now=now,
                rows=rows,
                columns=", ".join(CLAIM_COLUMNS),
                waited=self.seconds_between_sql("scheduled_at", now),
            ),
            [self.value(Column.UUID, request.worker_id), *params],
        )
        return [(*row[:-1], turns[row[0]], row[-1]) for row in cursor.fetchall()]

    def database_is_settled_sql(self, seconds: float) -> str:
        """Return truth: a file has no restart to wait out."""
        return "1"

    def is_transient(self, error: Exception) -> bool:
        """Look for the two words SQLite has for somebody else writing."""
        return isinstance(error, OperationalError) and any(
            word in str(error) for word in ("locked", "busy")
        )
