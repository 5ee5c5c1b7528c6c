"""What the engine needs of a dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from jobs.engine.dialects.claim_parameters import ClaimFilter, FirmsWithWork, Quota, Range

# SQL and its parameters.
Statement = tuple[str, list[Any]]


class Answer(NamedTuple):
    """What a statement returned, and how many rows it touched."""

    rows: list[tuple[Any, ...]]
    touched: int


# Longer than any engine transaction locks a row that others need, and shorter than PostgreSQL's
# `deadlock_timeout`, so that nobody who waits for the engine gets a deadlock error. The short one
# is for work that is tried again and must not delay others.
LOCK_TIMEOUT_MILLISECONDS, SHORT_LOCK_TIMEOUT_MILLISECONDS = 100, 10

# Otherwise PostgreSQL would plan a prepared statement again each time, for a small gain. It would
# also compile a claim (130 ms each time), because the limits, which are hardly ever looked up, make
# its plan look costly.
PLANNER_SETTINGS = {"plan_cache_mode": "force_generic_plan", "jit": "off"}

# The time at which the test kit has stopped the clock (`engine.clock`), None while it runs.
frozen_at: ContextVar[datetime | None] = ContextVar("frozen_at", default=None)


class Column(StrEnum):
    """The types a row of parameters is made of."""

    UUID = "uuid"
    BIGINT = "bigint"
    INTEGER = "integer"
    FLOAT = "double precision"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "timestamptz"


# What a claim returns of each job first; `Dialect.claimed_columns_sql` has the rest.
CLAIM_COLUMNS = (
    "job_id",
    "firm_id",
    "user_id",
    "category",
    "job_type",
    "payload_version",
    "payload",
    "correlation_id",
    "priority",
    "attempts",
    "max_attempts",
    "series",
    "deaths",
    "lease_token",
    "lock_key",
    "lock_counted_by",
    "limit_key",
    "scheduled_at",
)


class Dialect(ABC):
    """SQL fragments and value forms of one database."""

    # The end of a SELECT that locks its rows.
    for_update: str
    # The same, but rows of other tables may still refer to them.
    for_no_key_update: str
    # The end of a SELECT that keeps its rows from being deleted.
    for_key_share: str
    # The end of a SELECT that locks its rows and skips those that others have locked.
    skip_locked: str
    # Whether one query with `a OR b` reads an index for each of the two conditions.
    combines_indexes: bool
    # Casts a text expression to the type of a JSON column.
    json_cast: str
    # Keeps the planner from merging a CTE into the query around it.
    materialized: str
    # The end of a subquery that the planner shall not merge; unlike a CTE it stores no rows.
    subquery_fence: str
    # Whether several statements can be one transaction in one round trip.
    has_pipelines: bool
    # How many jobs a worker claims at once, at most.
    largest_claim: int

    def now_sql(self) -> str:
        """Return the expression for the database's time; the test kit can stop it."""
        frozen = frozen_at.get()
        return self.live_now_sql() if frozen is None else self.time_literal(frozen)

    @abstractmethod
    def live_now_sql(self) -> str:
        """Return the expression for the running statement's time."""

    @abstractmethod
    def time_literal(self, moment: datetime) -> str:
        """Return SQL for an aware datetime."""

    @abstractmethod
    def after_sql(self, start: str, seconds: str) -> str:
        """Return the expression for `start` plus `seconds` (both SQL)."""

    @abstractmethod
    def seconds_between_sql(self, start: str, end: str) -> str:
        """Return the expression for the seconds from `start` to `end` (both SQL)."""

    @abstractmethod
    def minute_sql(self, moment: str) -> str:
        """Return the expression for `moment` cut to its minute."""

    @abstractmethod
    def rows_sql(
        self,
        alias: str,
        columns: dict[str, Column],
        rows: Sequence[Sequence[Any]],
    ) -> Statement:
        """Return a FROM item of `rows` with these typed columns, and its parameters."""

    @abstractmethod
    def value(self, column: Column, value: Any) -> Any:
        """Return one parameter in the form the database stores it."""

    @abstractmethod
    def values(self, columns: dict[str, Column], row: Sequence[Any]) -> list[Any]:
        """Return the parameters for `row_sql`."""

    @abstractmethod
    def read_uuid(self, value: Any) -> Any:
        """Return a fetched id as `uuid.UUID`."""

    @abstractmethod
    def read_time(self, value: Any) -> Any:
        """Return a fetched time as an aware datetime, NULL as None."""

    @abstractmethod
    def next_token_sql(self, rows: int = 1, number: str = "1") -> str:
        """Return the expression for the next token of a statement; on SQLite, draw the tokens first.

        Leases and locks share one source, which only ever grows. `number` (SQL) counts the `rows`.
        """

    @abstractmethod
    def json_text_sql(self, column: str) -> str:
        """Return the expression for a JSON column as text, to be parsed alike on both databases."""

    @abstractmethod
    def job_of_holder_sql(self, holder: str) -> str:
        """Return the expression for the job id inside a lock's holder (`job:<id>`)."""

    @abstractmethod
    def firms_with_work(
        self, ranges: Sequence[Range], wanted: ClaimFilter, most: int
    ) -> FirmsWithWork | None:
        """Return the first `most` firms with a claimable job, all of one priority.

        The ranges are scanned in order, up to the end of the first priority that has such a firm.
        Reads nothing but the claim index and, of each firm, its first claimable job.
        """

    @abstractmethod
    def take(
        self,
        worker_id: UUID,
        priority: int,
        quotas: Sequence[Quota],
        wanted: ClaimFilter,
        *,
        starts: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Take the jobs due first of each firm and return their rows (`claimed_columns_sql`).

        Rows that another claim has locked are skipped: two workers can never take the same job.
        With `starts`, a job that is taken alone and is not quarantined counts as started.
        """

    def claimed_columns_sql(self, job: str = "") -> str:
        """Return CLAIM_COLUMNS, then the columns that `read_claimed` makes the rest of a claim of.

        `job` is the table's alias and a dot.
        """
        now = self.now_sql()
        columns = [
            self.json_text_sql(f"{job}{column}")
            if column == "payload"
            else self.claimed_column_sql(f"{job}{column}")
            for column in CLAIM_COLUMNS
        ]
        waited = self.seconds_between_sql(f"{job}scheduled_at", now)
        return ", ".join(
            [
                *columns,
                self.is_set_sql(f"{job}cancel_requested_at"),
                self.claimed_column_sql(f"{job}admitted"),
                self.is_set_sql(f"{job}started_at"),
                waited,
                self.seconds_between_sql(now, f"{job}expires_at"),
            ]
        )

    def claimed_column_sql(self, column: str) -> str:
        """Return the expression by which a claim returns this column of the job."""
        return column

    @abstractmethod
    def is_set_sql(self, column: str) -> str:
        """Return an expression of a RETURNING clause that is true where the column has a value."""

    @abstractmethod
    def read_claimed(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows of `claimed_columns_sql` as Python values, with no wait below 0."""

    @abstractmethod
    def row_sql(self, alias: str, columns: dict[str, Column]) -> str:
        """Return a FROM item of one row with these typed columns; `values` makes its parameters."""

    @abstractmethod
    def pending_work_sql(
        self, ranges: Sequence[Range], wanted: ClaimFilter, columns: Sequence[str]
    ) -> Statement | None:
        """Return one statement that says whether a firm has work, and these columns.

        Returns None if the firm scan takes several statements.
        """

    @abstractmethod
    def rls_bypass_sql(self) -> str:
        """Return a table of one row for a FROM clause: its statement sees the rows of every firm."""

    @abstractmethod
    def then_end_rls_bypass_sql(self, writing: str) -> str:
        """Return a statement that runs `writing`, an INSERT … RETURNING, and then ends the bypass."""

    @abstractmethod
    def fetch_prepared(
        self, statements: Sequence[Statement], *, lock_timeout_ms: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of all statements.

        Outside a transaction, where `has_pipelines`, they are one transaction in one round trip,
        which bypasses row level security and waits no longer than `lock_timeout_ms` for a lock.
        """

    @abstractmethod
    def execute_alone(self, database: Any, statement: Statement, *, fixed: bool) -> Answer:
        """Run one statement as its own transaction, or in the open one.

        `fixed` means that its text is one of a few, so that the connection may keep it prepared. On
        SQLite the number of rows is unknown for a statement that returns any.
        """

    @abstractmethod
    def prepared_cursor(self) -> Any:
        """Return a cursor for statements that are run often: their plans are kept."""

    @abstractmethod
    def kept_cursor(self, database: Any) -> Any:
        """Return a cursor for statements whose text hardly ever changes; do not close it."""

    @abstractmethod
    def up_longer_than_sql(self, seconds: float) -> str:
        """Return a condition: the database has been up for longer than `seconds`."""

    @abstractmethod
    def job_by_id_sql(self, join: str, alias: str, job_id: str) -> str:
        """Return a join ("JOIN", "LEFT JOIN") with the job of this id (SQL on the tables before it).

        It reads the primary key once for each row, however many rows the planner expects.
        """

    @abstractmethod
    def is_lock_timeout(self, error: Exception) -> bool:
        """Say whether this database error means that a lock was not granted in time."""

    @abstractmethod
    def is_transient(self, error: Exception) -> bool:
        """Say whether a repeat of the transaction can cure this database error."""
