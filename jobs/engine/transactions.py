"""The engine's transactions and statements: they see every firm's rows, and may be repeated."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from random import SystemRandom
from typing import Any, TypeVar

from django.db import DatabaseError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.conf import lease_seconds
from jobs.engine import dialects
from jobs.engine.dialects.base import PLANNER_SETTINGS, Answer
from tenants.local_settings import ENGINE_SETTING, begin_read_committed, set_local
from tenants.scope import sees_all_firms

T = TypeVar("T")

REPEATS = 6
FIRST_PAUSE_SECONDS = 0.02

_rng = SystemRandom()
_in_engine: ContextVar[bool] = ContextVar("in_engine", default=False)


class LockTimeout(Exception):
    """A lock was not granted in time; the transaction is rolled back."""


def in_transaction(
    work: Callable[[], T], *, savepoint: bool = False, lock_timeout_ms: int | None = None
) -> T:
    """Return what `work` returns; repeat it after a deadlock or a busy database.

    Inside a caller's transaction it joins that and runs once: only the caller could repeat it.
    With `savepoint`, what it wrote there is undone when it raises.

    Raises:
        LockTimeout: on PostgreSQL, outside a caller's transaction: a lock took longer than
            `lock_timeout_ms`.
    """
    if connection.in_atomic_block:
        if not savepoint:
            return _joining(work)
        with transaction.atomic():
            return _joining(work)
    settings = {ENGINE_SETTING: "on", **_settings()}
    if lock_timeout_ms is not None:
        settings["lock_timeout"] = f"{lock_timeout_ms}ms"

    def once() -> T:
        with transaction.atomic():
            # With a snapshot from before a lock was granted, what the lock's last holder committed
            # would not be counted.
            begin_read_committed(settings)
            return work()

    return _repeated(once, repeats_lock_timeout=lock_timeout_ms is None)


def without_waiting(work: Callable[[], T]) -> T:
    """Return what `work` returns; as `in_transaction`, but statements do not wait for each other.

    Call it outside any transaction, and only where `dialect.has_pipelines`. Only fetching rows
    waits for the database, and the error of a statement may be raised by a later one, or at the
    end. Row level security applies except in `run_bypassing`, so that `work` may call foreign code.
    """

    def once() -> T:
        with (
            _engine(inside=False),
            transaction.atomic(),
            connection.wrap_database_errors,
            connection.connection.pipeline(),
        ):
            set_local(ENGINE_SETTING, "off", **_settings())
            return work()

    return _repeated(once)


def _settings() -> dict[str, str]:
    # Otherwise a process that is cut off would keep its row locks, and the rescue of its jobs would
    # wait for them.
    timeout = f"{lease_seconds() * 1000:.0f}ms"
    return {"idle_in_transaction_session_timeout": timeout, **PLANNER_SETTINGS}


def limit_lock_waits(milliseconds: int | None) -> None:
    """Limit how long statements of the open transaction wait for a lock; None: by default.

    For PostgreSQL; SQLite has no row locks.
    """
    if connection.vendor == "postgresql":
        value = None if milliseconds is None else f"{milliseconds}ms"
        fetch("SELECT set_config('lock_timeout', %s, true)", [value])


def bypasses_rls() -> bool:
    """Say whether this code runs as the engine, with the bypass of row level security on."""
    return _in_engine.get()


def reading(work: Callable[[], T]) -> T:
    """Return what `work` returns, which must only read; on SQLite it takes no write lock."""
    if connection.vendor == "postgresql" and not _sees_every_firm():
        return in_transaction(work)
    with _engine():
        return work()


def _sees_every_firm() -> bool:
    """Say whether row level security hides nothing in the open transaction: no bypass is needed."""
    return connection.in_atomic_block and sees_all_firms()


def transaction_survives(error: DatabaseError) -> bool:
    """Say whether the transaction can continue after the rollback of a savepoint.

    It cannot if the connection is lost, and should not if a repeat of the whole transaction can
    cure the error.
    """
    return not dialects.current().is_transient(error) and connection.is_usable()


def _joining(work: Callable[[], T]) -> T:
    """Run inside the caller's transaction, and end the bypass of row level security after it."""
    if _in_engine.get():
        return work()
    with _engine():
        set_local(ENGINE_SETTING, "on")
        try:
            result = work()
        except DatabaseError:
            # The transaction is aborted, and its settings with it.
            raise
        except BaseException:
            set_local(ENGINE_SETTING, "off")
            raise
        set_local(ENGINE_SETTING, "off")
        return result


class _engine:  # noqa: N801 - a context manager, named as one
    """Mark the code inside as the engine's, which bypasses row level security, or as foreign."""

    __slots__ = ("_inside", "_token")

    def __init__(self, *, inside: bool = True) -> None:
        self._inside = inside

    def __enter__(self) -> None:
        self._token = _in_engine.set(self._inside)

    def __exit__(self, *_: object) -> None:
        _in_engine.reset(self._token)


def fetch(sql: str, params: list[Any], *, prepared: bool = False) -> list[tuple[Any, ...]]:
    """Run a statement that returns rows, inside `in_transaction`.

    With `prepared` the database may keep its plan: its text must hardly ever change, and must
    name the type of each parameter.
    """
    with _cursor(prepared) as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def run(sql: str, params: list[Any], *, prepared: bool = False) -> int:
    """Run a statement and return how many rows it touched; otherwise as `fetch`."""
    with _cursor(prepared) as cursor:
        cursor.execute(sql, params)
        return int(cursor.rowcount)


def fetch_in_scope(sql: str, params: list[Any], *, prepared: bool = True) -> list[tuple[Any, ...]]:
    """Run a statement in the caller's transaction, which sees the rows of the firms in scope only."""
    database = transaction.get_connection()
    # Not closed, because it may be the cursor that the connection keeps.
    cursor = dialects.current().kept_cursor(database) if prepared else database.cursor()
    cursor.execute(sql, params)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def run_alone(
    sql: str,
    params: list[Any],
    *,
    database: BaseDatabaseWrapper | None = None,
    fixed: bool = False,
) -> Answer:
    """Run one statement as its own transaction; repeat it as `in_transaction` does.

    Inside a caller's transaction it runs once: only the caller could repeat that. It bypasses row
    level security by itself (`dialect.rls_bypass_sql`). `fixed`: its text is one of a few.
    """
    database = database or transaction.get_connection()
    dialect = dialects.current()

    def once() -> Answer:
        return dialect.execute_alone(database, (sql, params), fixed=fixed)

    if database.autocommit:
        return _repeated(once)
    with _engine():
        return once()


def run_bypassing(sql: str, params: list[Any]) -> None:
    """Run one statement in the open transaction that begins and ends the RLS bypass by itself."""
    dialects.current().kept_cursor(transaction.get_connection()).execute(sql, params)


def fetch_pipelined(
    sql: str, params: list[Any], *, lock_timeout_ms: int | None = None
) -> list[tuple[Any, ...]]:
    """Run one statement as `pipelined` does, and return its rows.

    Raises:
        LockTimeout: a lock took longer than `lock_timeout_ms`.
    """
    return pipelined(
        lambda: dialects.current().fetch_prepared([(sql, params)], lock_timeout_ms=lock_timeout_ms),
        repeats_lock_timeout=lock_timeout_ms is None,
    )


def pipelined(work: Callable[[], T], *, repeats_lock_timeout: bool = True) -> T:
    """Return what `work` returns; repeat it after a deadlock or a busy database.

    On PostgreSQL each `dialect.fetch_prepared` in it is its own transaction, in one round trip; on
    SQLite, and inside a caller's transaction, all of them are one transaction.
    """
    if connection.in_atomic_block or not dialects.current().has_pipelines:
        return in_transaction(work)
    return _repeated(work, repeats_lock_timeout=repeats_lock_timeout)


def _repeated(work: Callable[[], T], *, repeats_lock_timeout: bool = True) -> T:
    dialect = dialects.current()
    handled = sys.exception()
    for repeat in range(REPEATS):
        try:
            with _engine():
                return work()
        except DatabaseError as error:
            if (interrupt := _interrupt_behind(error, handled)) is not None:
                # Results are left on the connection, which cannot be used again.
                connection.close()
                raise interrupt from None
            if not repeats_lock_timeout and dialect.is_lock_timeout(error):
                raise LockTimeout from error
            if repeat == REPEATS - 1 or not dialect.is_transient(error):
                raise
        time.sleep(FIRST_PAUSE_SECONDS * 2**repeat * _rng.uniform(0.5, 1.5))
    raise AssertionError("unreachable: the last repeat returns or raises")


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """Return the exception of a signal (such as KeyboardInterrupt) that `error` hides, if any.

    If one is raised while a pipeline or a transaction ends, psycopg or Django raises an error of
    its own instead. The exception that was being `handled` before does not count.
    """
    cause = error.__context__
    while cause is not None and cause is not handled:
        if not isinstance(cause, Exception):
            return cause
        cause = cause.__context__
    return None


def _cursor(prepared: bool) -> Any:
    if not _in_engine.get():
        raise RuntimeError("engine statements run inside in_transaction()")
    return dialects.current().prepared_cursor() if prepared else connection.cursor()


# Connections of the parent process, kept because closing or collecting one would end its session.
_inherited: list[BaseDatabaseWrapper] = []


def watch_forks() -> None:
    """From now on, let every forked child open its own connections."""
    os.register_at_fork(after_in_child=_leave_to_parent)


def _leave_to_parent() -> None:
    for inherited in connections.all(initialized_only=True):
        _inherited.append(inherited)
        del connections[inherited.alias]
