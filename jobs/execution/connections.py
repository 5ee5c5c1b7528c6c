"""Finds the connections on which a handler left a transaction open, and drops them.

On such a connection the writes of the next handlers would never be committed, though nothing fails.
All checks are local: they ask the driver, not the server.
"""

from __future__ import annotations

import sqlite3
import threading
import traceback
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.pq import PipelineStatus, TransactionStatus

from jobs.errors import Cancel, Snooze, TransactionLeftOpen, deciding

# Plain numbers: these checks run for every job, and comparing with an enum's members takes longer.
_IDLE, _BROKEN = int(TransactionStatus.IDLE), int(TransactionStatus.UNKNOWN)
_NO_PIPELINE = int(PipelineStatus.OFF)
# After a shorter time a connection is used without the round trip of a check.
IDLE_SECONDS = 1.0


class _Opened(threading.local):
    """The thread's connections that were ever open; `connections.all()` takes several µs."""

    def __init__(self) -> None:
        self.connections = list(connections.all(initialized_only=True))


_opened = _Opened()


def _note_opened(connection: BaseDatabaseWrapper, **_: Any) -> None:
    # Copies of connections that a handler opens for itself do not count: nobody else uses them.
    ours = connections.all(initialized_only=True)
    if connection in ours and connection not in _opened.connections:
        _opened.connections.append(connection)


connection_created.connect(_note_opened)


def check_after(seconds: float) -> None:
    """Close this thread's connection if it has broken; it may have been idle for these seconds.

    The server ends sessions that are idle for its `idle_session_timeout`. A handler's long call
    would be repeated by each attempt, because none could store that it was made. Django itself
    would check the connection only in projects that set `CONN_HEALTH_CHECKS`.
    """
    database = transaction.get_connection()
    if seconds >= IDLE_SECONDS and not in_transaction(database) and not database.is_usable():
        database.close()


def atomic_connections() -> list[BaseDatabaseWrapper]:
    """Return this thread's connections that are in an atomic block."""
    return [one for one in _opened.connections if one.in_atomic_block]


def _open_transactions(outer: Collection[BaseDatabaseWrapper]) -> list[BaseDatabaseWrapper]:
    left = [one for one in _opened.connections if in_transaction(one) and one not in outer]
    if left:
        # In a forked child, the other connections are its parent's.
        ours = connections.all(initialized_only=True)
        left = [one for one in left if one in ours]
    return left


def in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Say whether a transaction is open on this connection, or would be with its next statement."""
    if connection.in_atomic_block:
        return True
    raw = connection.connection
    if raw is None:
        return False
    autocommit = connection.settings_dict["AUTOCOMMIT"]
    if connection.autocommit is not autocommit:
        return True
    # SQL and the driver can begin a transaction that Django does not know of.
    try:
        if connection.vendor == "postgresql":
            client = raw.pgconn
            status = client.transaction_status
            if status != _BROKEN:
                return (
                    status != _IDLE
                    or client.pipeline_status != _NO_PIPELINE
                    or raw.autocommit is not autocommit
                )
        elif connection.vendor == "sqlite":
            return bool(raw.in_transaction or (autocommit and raw.isolation_level is not None))
        else:
            return False
    except Exception:  # noqa: BLE001, S110 - a driver that cannot say is taken for broken, below
        pass
    # It broke, or the handler closed it behind Django's back: the next handler gets a new one.
    _drop(connection)
    return False


def require_no_transaction(outer: Collection[BaseDatabaseWrapper] = ()) -> None:
    """Check that the handler left no transaction open on this thread, other than `outer`.

    Raises:
        TransactionLeftOpen: it left one open; the caller still has to drop the connection.
    """
    if left := _open_transactions(outer):
        raise transaction_left_open(left)


def drop_open_transactions(
    error: BaseException, outer: Collection[BaseDatabaseWrapper] = ()
) -> BaseException:
    """Drop the connections on which the handler that raised `error` left a transaction open.

    Returns the error of the attempt: TransactionLeftOpen where `error` itself is no failure.
    """
    if not _open_transactions(outer):
        return error
    # A generator that the error interrupted may yet end its transaction in order.
    traceback.clear_frames(error.__traceback__)
    left = _open_transactions(outer)
    if not left:
        return error
    found = transaction_left_open(left)
    for one in left:
        _drop(one)
    kind = type(deciding(error))
    if kind is TransactionLeftOpen:
        return error
    if issubclass(kind, Snooze | Cancel):
        found.__cause__ = error
        return found
    with suppress(BaseException):
        error.add_note(str(found))
    return error


def transaction_left_open(left: Collection[BaseDatabaseWrapper]) -> TransactionLeftOpen:
    """Return the error of a handler that left transactions open on these connections."""
    aliases = ", ".join(repr(one.alias) for one in left)
    return TransactionLeftOpen(
        f"the handler left a transaction open, or autocommit off, on the database {aliases}:"
        " what it wrote there is rolled back"
    )


def _drop(connection: BaseDatabaseWrapper) -> None:
    raw = connection.connection
    # Otherwise close() would postpone the closing to the end of the atomic block.
    connection.in_atomic_block = False
    connection.closed_in_transaction = False
    with suppress(Exception):
        if isinstance(raw, sqlite3.Connection):
            # A cursor that is still referenced would keep the transaction past close().
            raw.rollback()
        raw.close()
    with suppress(Exception):
        connection.close()
    connection.connection = None
