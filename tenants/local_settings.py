"""Settings of one transaction, such as those that row level security reads; PostgreSQL only."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import Escaping, ExecStatus, PipelineStatus, TransactionStatus

# The settings that row level security reads.
FIRMS_SETTING = "mailroom.firms"
ENGINE_SETTING = "mailroom.engine"
# Only a durable scope sets this; while it is set, that scope's transaction is the current one.
DURABLE_SETTING = "mailroom.durable"


def set_local(setting: str, value: str, **others: str) -> None:
    """Set a setting, and `others` in the same round trip, until the transaction or savepoint ends.

    It does nothing on SQLite.
    """
    _set({setting: value, **others}, read_committed=False)


def begin_read_committed(settings: dict[str, str]) -> None:
    """Set these as `set_local` does, and begin the transaction as READ COMMITTED.

    That is its isolation level whatever the server, the role or the project sets, unless it has
    begun already.
    """
    _set(settings, read_committed=True)


def _set(settings: dict[str, str], *, read_committed: bool) -> None:
    # Not the proxy `connection`, which looks the connection up at each access to an attribute.
    database = transaction.get_connection()
    if database.vendor != "postgresql" or database.needs_rollback:
        # A broken transaction is about to be rolled back, and loses its settings then.
        return
    if _is_about_to_begin(database):
        with database.wrap_database_errors:
            _begin(database.connection, settings, read_committed=read_committed)
        return
    if read_committed:
        _isolate(database)
    calls = ", ".join(["set_config(%s, %s, true)"] * len(settings))
    with database.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", [part for pair in settings.items() for part in pair])


def _is_about_to_begin(database: Any) -> bool:
    """Say whether psycopg would send a plain BEGIN before the next statement.

    False if Django logs or wraps statements, because those tools would miss the ones of `_begin`.
    """
    client = database.connection
    return (
        client is not None
        and not database.autocommit
        and client.pgconn.transaction_status == TransactionStatus.IDLE
        and client.pgconn.pipeline_status == PipelineStatus.OFF
        and client.isolation_level is client.read_only is client.deferrable is None
        and not database.queries_logged
        and not database.execute_wrappers
    )


def _isolate(database: Any) -> None:
    """Begin the transaction as READ COMMITTED, unless it has begun already.

    Not by Django's cursor, because tools that log or wrap statements would count one more.
    """
    client = database.connection
    if client.pgconn.transaction_status == TransactionStatus.IDLE and not database.autocommit:
        with database.wrap_database_errors:
            client.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def _begin(client: Any, settings: dict[str, str], *, read_committed: bool) -> None:
    """Begin the transaction with these settings, in one message: a third less time for a scope."""
    with client.lock:
        quoted = Escaping(client.pgconn).escape_literal
        assignments = [
            b"SET LOCAL %b = %b" % (name.encode(), quoted(value.encode()))
            for name, value in settings.items()
        ]
        begin = b"BEGIN ISOLATION LEVEL READ COMMITTED" if read_committed else b"BEGIN"
        client.pgconn.send_query(b"; ".join([begin, *assignments]))
        for result in client.wait(execute(client.pgconn)):
            if result.status != ExecStatus.COMMAND_OK:
                raise error_from_result(result, client.info.encoding)
