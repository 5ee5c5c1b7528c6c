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
from jobs.engine.dialects.postgresql import PLAN_ONCE
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

    def once() -> T:
        with transaction.atomic():
            # The server ends the transaction of a process that is cut off in its midst, and
            # with it the row locks, for which the rescue of that process's jobs would wait.
            patience = f"{lease_seconds() * 1000:.0f}ms"
            set_local(
                ENGINE_SETTING, "on", idle_in_transaction_session_timeout=patience, **PLAN_ONCE
            )
            return work()

    return _alone(once)


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


class _engine:  # noqa: N801 - a context manager, named as one
    """Mark the code inside as the engine's: row level security is open on the queue's tables."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _in_engine.set(True)

    def __exit__(self, *_: object) -> None:
        _in_engine.reset(self._token)


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
    return _alone(lambda: fetch(sql, params, hot=True))


def run_alone(sql: str, params: list[Any]) -> int:
    """Run such a statement, or one of a table without a wall; return how many rows it touched."""
    return _alone(lambda: run(sql, params, hot=True))


def fetch_in_one_trip(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    """Run one hot statement as `in_trips` does."""
    return in_trips(lambda: dialects.current().fetch_hot([(sql, params)]))


def in_trips(work: Callable[[], T]) -> T:
    """Return what `work` returns, each of whose statements may stand alone; again after a deadlock.

    Where the database can, each of the dialect's own is a transaction by itself, in one round trip;
    elsewhere, and inside a caller's transaction, all of them are one.
    """
    if connection.in_atomic_block or not dialects.current().has_pipelines:
        return in_transaction(work)
    return _alone(work)


def _alone(work: Callable[[], T]) -> T:
    for repeat in range(REPEATS):
        try:
            with _engine():
                return work()
        except DatabaseError as error:
            if repeat == REPEATS - 1 or not dialects.current().is_transient(error):
                raise
        time.sleep(FIRST_PAUSE_SECONDS * 2**repeat * _rng.uniform(0.5, 1.5))
    raise AssertionError("unreachable: the last repeat returns or raises")


@contextmanager
def without_waiting() -> Iterator[None]:
    """Let statements inside follow each other, each waited for only when its rows are fetched.

    Inside `in_transaction`, and only where `dialect.has_pipelines`. What one of them raises comes
    with a later one, or at the end. The server does not end it for being idle: a process that is
    frozen in its midst keeps what it locked for as long.
    """
    with connection.wrap_database_errors, connection.connection.pipeline():
        yield


@contextmanager
def outside_the_engine() -> Iterator[None]:
    """Close the wall for what runs inside and is not the engine's, in the engine's transaction."""
    token = _in_engine.set(False)
    set_local(ENGINE_SETTING, "off")
    try:
        yield
    finally:
        _in_engine.reset(token)
    set_local(ENGINE_SETTING, "on")


def _cursor(hot: bool) -> Any:
    if not _in_engine.get():
        raise RuntimeError("engine statements run inside in_transaction()")
    return dialects.current().hot_cursor() if hot else connection.cursor()
