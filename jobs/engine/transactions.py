"""Runs an engine verb in a transaction that sees every firm's jobs, again where need be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from random import SystemRandom
from typing import Any, TypeVar

from django.db import DatabaseError, connection, transaction

from jobs.conf import lease_seconds
from jobs.engine import dialects
from tenants.scope import ENGINE_SETTING, set_local

T = TypeVar("T")

REPEATS = 6
FIRST_PAUSE_SECONDS = 0.02

_rng = SystemRandom()
_in_engine: ContextVar[bool] = ContextVar("in_engine", default=False)


def in_transaction(work: Callable[[], T], *, savepoint: bool = False) -> T:
    """Return what `work` returns; repeat it after a deadlock or a busy database.

    Inside a caller's transaction it runs once and joins it: only the caller could repeat that.
    With `savepoint`, what it wrote there is undone when it raises; verbs that refuse halfway
    need that.
    """
    if connection.in_atomic_block:
        if not savepoint:
            return _joining(work)
        with transaction.atomic():
            return _joining(work)
    dialect = dialects.current()
    for repeat in range(REPEATS):
        try:
            with transaction.atomic(), _engine():
                # The server ends the transaction of a process that is cut off in its midst, and
                # with it the row locks, for which the rescue of that process's jobs would wait.
                patience = f"{lease_seconds() * 1000:.0f}ms"
                set_local(ENGINE_SETTING, "on", idle_in_transaction_session_timeout=patience)
                return work()
        except DatabaseError as error:
            if repeat == REPEATS - 1 or not dialect.is_transient(error):
                raise
        time.sleep(FIRST_PAUSE_SECONDS * 2**repeat * _rng.uniform(0.5, 1.5))
    raise AssertionError("unreachable: the last repeat returns or raises")


def reading(work: Callable[[], T]) -> T:
    """Return what `work`, which only reads, returns: on SQLite without taking the write lock."""
    if connection.vendor == "postgresql":
        return in_transaction(work)
    with _engine():
        return work()


def goes_on_after(error: DatabaseError) -> bool:
    """Say whether the transaction can go on, now that the savepoint that failed is undone.

    Not where repeating all of it can cure the error, nor where the connection is lost.
    """
    return not dialects.current().is_transient(error) and connection.is_usable()


def _joining(work: Callable[[], T]) -> T:
    """Run inside the caller's transaction, and close the wall behind it."""
    if _in_engine.get():
        return work()
    with _engine():
        set_local(ENGINE_SETTING, "on")
        try:
            result = work()
        except DatabaseError:
            # The transaction is broken; its settings go with it.
            raise
        except BaseException:
            set_local(ENGINE_SETTING, "off")
            raise
        set_local(ENGINE_SETTING, "off")
        return result


@contextmanager
def _engine() -> Iterator[None]:
    """Mark the code inside as the engine's: row level security is open on the queue's tables."""
    token = _in_engine.set(True)
    try:
        yield
    finally:
        _in_engine.reset(token)


def fetch(sql: str, params: list[Any], *, hot: bool = False) -> list[tuple[Any, ...]]:
    """Run a statement that returns rows, inside `in_transaction`.

    The plan of a `hot` one is kept where the database can: its text must hardly ever change, and
    the type of each parameter must show in it.
    """
    with _cursor(hot) as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def run(sql: str, params: list[Any], *, hot: bool = False) -> int:
    """Run a statement and return how many rows it touched; otherwise as `fetch`."""
    with _cursor(hot) as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def fetch_alone(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    """Run one statement that is a transaction by itself and returns rows; again after a deadlock.

    It opens the wall on its own (`dialect.engine_wall_sql`).
    """
    for repeat in range(REPEATS):
        try:
            with _engine():
                return fetch(sql, params, hot=True)
        except DatabaseError as error:
            if repeat == REPEATS - 1 or not dialects.current().is_transient(error):
                raise
        time.sleep(FIRST_PAUSE_SECONDS * 2**repeat * _rng.uniform(0.5, 1.5))
    raise AssertionError("unreachable: the last repeat returns or raises")


def _cursor(hot: bool) -> Any:
    if not _in_engine.get():
        raise RuntimeError("engine statements run inside in_transaction()")
    return dialects.current().hot_cursor() if hot else connection.cursor()
