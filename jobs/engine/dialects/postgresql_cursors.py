"""The engine's cursors on PostgreSQL: they prepare at first use, never, or as psycopg decides."""

from __future__ import annotations

from typing import Any, cast

from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg.pq import Format


class PreparingCursor(ServerBindingCursor):
    """Prepares at first use if allowed, because planning takes longer than running a statement."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Prepare, then run."""
        options["prepare"] = True
        return super().execute(query, params, **options)  # type: ignore[misc]  # untyped in Django


class LoggedCursor(ServerBindingCursor):
    """Prepares nothing: a prepared statement would be logged without its text."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Send the whole statement."""
        options["prepare"] = False
        return super().execute(query, params, **options)  # type: ignore[misc]  # untyped in Django


def connect(database: Any) -> None:
    """Connect if there is no connection or it is lost.

    A connection lost in a transaction stays closed, so that the transaction's end reports the loss
    of its writes.
    """
    database.close_if_health_check_failed()
    if database.connection is not None and database.connection.closed and database.autocommit:
        # An earlier statement was interrupted.
        database.close()
    database.ensure_connection()


def prepared_cursor(database: Any) -> Any:
    """Return a new cursor, of a class that Django's own method cannot be told to use."""
    connect(database)
    kind = LoggedCursor if database.queries_logged else ServerBindingCursor
    cursor: Any = cast("Any", kind)(database.connection)
    cursor.format = Format.BINARY
    if database.queries_logged:
        return database.make_debug_cursor(cursor)
    return database.make_cursor(cursor)


def kept_cursor(database: Any) -> Any:
    """Return the connection's kept cursor: psycopg remembers in it how to encode the statement."""
    if database.queries_logged:
        return prepared_cursor(database)
    connect(database)
    kept = getattr(database, "engine_cursor", None)
    if kept is None or kept.cursor.connection is not database.connection:
        cursor: Any = cast("Any", PreparingCursor)(database.connection)
        cursor.format = Format.BINARY
        kept = database.engine_cursor = database.make_cursor(cursor)
    return kept
