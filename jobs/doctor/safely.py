"""Looking without touching: nothing is written, nothing takes long, nothing stays set."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connection, transaction

# A check that takes longer tells more by that than it would by its answer.
TIME_LIMIT_SECONDS = 2.0
# SQLite asks whether to go on after so many steps of its machine.
STEPS_BETWEEN_LOOKS = 10_000

_MISSING_RIGHT = "42501"
_TIMED_OUT = ("57014", "55P03")


@contextmanager
def looking(limit_seconds: float | None = None) -> Iterator[None]:
    """Refuse writes inside the block, and give up after so long, or TIME_LIMIT_SECONDS.

    All of it is a transaction, or a savepoint of the one that is open, and is rolled back: what
    was set for it goes with it.
    """
    limit = TIME_LIMIT_SECONDS if limit_seconds is None else limit_seconds
    with transaction.atomic():
        if connection.vendor == "postgresql":
            _guard_session(limit)
            yield
        else:
            with _guarded_file(limit):
                yield
        transaction.set_rollback(True)


def fetch(sql: str, params: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return a query's rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def own_role() -> str:
    """Return the name of the database role that looks, as SQL."""
    return connection.ops.quote_name(connection.settings_dict["USER"])


def lacks_right(error: DatabaseError) -> bool:
    """Say whether the role may not ask that."""
    return _state(error) == _MISSING_RIGHT


def timed_out(error: DatabaseError) -> bool:
    """Say whether the database was given up on."""
    return _state(error) in _TIMED_OUT or "interrupted" in str(error)


def _state(error: DatabaseError) -> str:
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def _guard_session(limit_seconds: float) -> None:
    milliseconds = f"{int(limit_seconds * 1000)}ms"
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        for setting in ("statement_timeout", "lock_timeout"):
            cursor.execute("SELECT set_config(%s, %s, true)", [setting, milliseconds])


@contextmanager
def _guarded_file(limit_seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + limit_seconds

    def give_up() -> int:
        return int(time.monotonic() > deadline)

    database: Any = connection.connection
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        database.set_progress_handler(give_up, STEPS_BETWEEN_LOOKS)
        try:
            yield
        finally:
            database.set_progress_handler(None, 0)
            cursor.execute("PRAGMA query_only = OFF")
