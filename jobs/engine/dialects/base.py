"""What the engine asks of a dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any
from uuid import UUID

from jobs.engine.clock import frozen_now


class Column(Enum):
    """The types a row of parameters is made of."""

    UUID = "uuid"
    BIGINT = "bigint"
    INTEGER = "integer"
    FLOAT = "double precision"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "timestamptz"


@dataclass(frozen=True)
class ClaimRequest:
    """Who claims, how many, of what, and whose turn it is.

    `cursors` holds, per priority, the firm that was served last: the turn goes to the next one.
    Empty `categories` or `job_types` mean all.
    """

    worker_id: UUID
    limit: int
    cursors: Mapping[int, int]
    categories: Sequence[str] = ()
    job_types: Sequence[str] = ()


# What a claim returns of each job, besides the turn and the seconds it waited.
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
)


class Dialect(ABC):
    """SQL fragments and value forms of one database."""

    # The end of a SELECT that locks its rows and leaves out what others hold.
    skip_locked: str
    # Turns a text expression into the type of a JSON column.
    json_cast: str
    # Keeps the planner from merging a CTE into the query around it.
    materialized: str

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
        self, alias: str, columns: dict[str, Column], rows: Sequence[Sequence[Any]]
    ) -> tuple[str, list[Any]]:
        """Return a FROM item of `rows` with these typed columns, and its parameters."""

    @abstractmethod
    def value(self, column: Column, value: Any) -> Any:
        """Return one parameter in the form the database stores it."""

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
    def claim(self, request: ClaimRequest) -> list[tuple[Any, ...]]:
        """Take jobs for a worker and return their rows, in the order of `CLAIM_COLUMNS`.

        All rows are of one priority, the lowest number with a job due. Must run in autocommit or
        in a transaction of its own.
        """

    @abstractmethod
    def database_is_settled_sql(self, seconds: float) -> str:
        """Return a condition: the database has been up for longer than `seconds`."""

    @abstractmethod
    def is_transient(self, error: Exception) -> bool:
        """Say whether repeating the transaction can cure this database error."""
