"""The parts of every check: its findings, and read-only access to the database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import DatabaseError, connection, transaction

# A check that takes longer is itself a finding.
TIME_LIMIT_SECONDS = 2.0
# How many steps of SQLite's virtual machine run between two tests of the deadline.
STEPS_PER_TEST = 10_000

_INSUFFICIENT_PRIVILEGE = "42501"
_TIMED_OUT = ("57014", "55P03")


class Severity(StrEnum):
    """How much a finding matters; the worst comes first."""

    PROBLEM = "problem"
    NOTICE = "notice"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """One thing that was checked; `mend` is SQL or a setting, empty if nothing is to be done."""

    id: str
    severity: Severity
    what: str
    why: str
    mend: str = ""


def graded(
    finding_id: str, what: str, why: str, mend: str, *, problem: bool, notice: bool = False
) -> Finding:
    """Return a finding of the severity that applies, without `mend` where all is well."""
    if not (problem or notice):
        return Finding(finding_id, Severity.OK, what, why)
    return Finding(finding_id, Severity.PROBLEM if problem else Severity.NOTICE, what, why, mend)


@contextmanager
def read_only(limit_seconds: float | None = None) -> Iterator[None]:
    """Refuse writes inside the block, and stop it after the limit, or TIME_LIMIT_SECONDS.

    The block is a transaction, or a savepoint of the open one, and is rolled back with its
    settings.
    """
    limit = TIME_LIMIT_SECONDS if limit_seconds is None else limit_seconds
    with transaction.atomic():
        if connection.vendor == "postgresql":
            _limit_session(limit)
            yield
        else:
            with _limited_file(limit):
                yield
        transaction.set_rollback(True)


def fetch(sql: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return a query's rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def own_role() -> str:
    """Return the name of this connection's database role, quoted for SQL."""
    return connection.ops.quote_name(connection.settings_dict["USER"])


def lacks_privilege(error: DatabaseError) -> bool:
    """Say whether the role has no right to run the query."""
    return _state(error) == _INSUFFICIENT_PRIVILEGE


def timed_out(error: DatabaseError) -> bool:
    """Say whether the time limit ended the query."""
    return _state(error) in _TIMED_OUT or "interrupted" in str(error)


def _state(error: DatabaseError) -> str:
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def _limit_session(limit_seconds: float) -> None:
    milliseconds = f"{int(limit_seconds * 1000)}ms"
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        for setting in ("statement_timeout", "lock_timeout"):
            cursor.execute("SELECT set_config(%s, %s, true)", [setting, milliseconds])


@contextmanager
def _limited_file(limit_seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + limit_seconds
    database: Any = connection.connection
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        database.set_progress_handler(lambda: int(time.monotonic() > deadline), STEPS_PER_TEST)
        try:
            yield
        finally:
            database.set_progress_handler(None, 0)
            cursor.execute("PRAGMA query_only = OFF")
