"""What the engine asks of a dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from jobs.engine.dialects.claim_types import ClaimFilter, FirmsWithWork, Quota, Range
from jobs.engine.frozen_time import frozen_now

# Some SQL and its parameters.
Statement = tuple[str, list[Any]]


class Column(StrEnum):
    """The types a row of parameters is made of."""

    UUID = "uuid"
    BIGINT = "bigint"
    INTEGER = "integer"
    FLOAT = "double precision"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "timestamptz"


# What a claim returns of each job, besides the seconds it waited.
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
    "scheduled_at",
    "cancel_requested_at",
    "admitted",
    "started_at",
)


class Dialect(ABC):
    """SQL fragments and value forms of one database."""

    # The end of a SELECT that locks its rows.
    for_update: str
    # The same, without barring rows elsewhere from referring to this one.
    for_no_key_update: str
    # The end of a SELECT that locks its rows and leaves out what others hold.
    skip_locked: str
    # Turns a text expression into the type of a JSON column.
    json_cast: str
    # Keeps the planner from merging a CTE into the query around it.
    materialized: str
    # The end of a subquery that the planner would merge; it keeps no rows, as a CTE does.
    apart: str
    # Whether statements can follow each other without waiting, as one transaction.
    has_pipelines: bool

    def now_sql(self) -> str:
        """Return the expression for the database's time; the test kit can stop it."""
        frozen = frozen_now()
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
        *,
        hot: bool = False,
    ) -> tuple[str, list[Any]]:
        """Return a FROM item of `rows` with these typed columns, and its parameters.

        Those of a `hot` statement, and of no other, travel in the database's own form.
        """

    @abstractmethod
    def value(self, column: Column, value: Any) -> Any:
        """Return one parameter in the form the database stores it."""

    @abstractmethod
    def values(self, columns: dict[str, Column], row: Sequence[Any]) -> list[Any]:
        """Return the parameters of `row_sql`."""

    @abstractmethod
    def read_uuid(self, value: Any) -> Any:
        """Return a fetched id as `uuid.UUID`."""

    @abstractmethod
    def read_time(self, value: Any) -> datetime | None:
        """Return a fetched time as an aware datetime."""

    @abstractmethod
    def draw_token_sql(self) -> str:
        """Draw a token, where that takes a statement, and return the expression for it.

        Tokens come from one source and grow for ever: leases and locks share it. Valid for one
        row of one statement, in the running transaction.
        """

    @abstractmethod
    def json_text_sql(self, column: str) -> str:
        """Return the expression for a JSON column as text, so that one parser reads both."""

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
        """Take the jobs due first of each firm and return their rows, as in `CLAIM_COLUMNS`.

        Rows that another claim has locked are skipped: two workers can never take the same job.
        With `starts`, a job that is taken alone and is not quarantined counts as started.
        """

    @abstractmethod
    def row_sql(self, alias: str, columns: dict[str, Column]) -> str:
        """Return a FROM item of one row with these typed columns; its parameters are `values`."""

    @abstractmethod
    def pending_work_sql(
        self, ranges: Sequence[Range], wanted: ClaimFilter, conditions: Sequence[str]
    ) -> Statement | None:
        """Return one statement that says whether a firm has work and which conditions hold.

        It opens the wall itself. None where a statement by itself is no gain.
        """

    @abstractmethod
    def engine_wall_sql(self, alias: str) -> str | None:
        """Return a table of one row for a FROM clause: it opens the wall for its statement.

        None where a statement by itself is no gain.
        """

    @abstractmethod
    def fetch_hot(self, statements: Sequence[Statement]) -> list[tuple[Any, ...]]:
        """Return the rows of all.

        Outside a transaction, where `has_pipelines`, they are one, behind the open wall and in one
        round trip.
        """

    @abstractmethod
    def hot_cursor(self) -> Any:
        """Return a cursor for statements that run over and over, in the transaction that is open.

        Its plans are kept, and its values travel as they are stored.
        """

    @abstractmethod
    def database_is_settled_sql(self, seconds: float) -> str:
        """Return a condition: the database has been up for longer than `seconds`."""

    @abstractmethod
    def job_by_id_sql(self, join: str, alias: str, job_id: str) -> str:
        """Return a join ("JOIN", "LEFT JOIN") with the job of this id (SQL on what stands before).

        One look by the primary key for each row, whatever the planner thinks of their number.
        """

    @abstractmethod
    def set_lock_timeout(self, milliseconds: int) -> None:
        """Set how long the open transaction waits for others' row locks."""

    @abstractmethod
    def is_lock_timeout(self, error: Exception) -> bool:
        """Say whether this database error is that timeout."""

    @abstractmethod
    def is_transient(self, error: Exception) -> bool:
        """Say whether repeating the transaction can cure this database error."""
