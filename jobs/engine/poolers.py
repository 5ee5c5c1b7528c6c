"""Detects a pooler such as PgBouncer between the service and PostgreSQL.

A pooler in transaction mode gives the session to another client after each transaction. A client
that prepared a statement would not find it, or find another client's of the same name; and no
notification reaches a client that has called LISTEN.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.base.base import BaseDatabaseWrapper

CONNECT_SECONDS = 2
SAMPLES = 10


def is_pooled(client: psycopg.Connection[Any]) -> bool:
    """Say whether the backend's process id at connect is another than that of a query.

    A pooler invents the id that it sends at connect.
    """
    return client.info.backend_pid != _server_process(client)


def changes_sessions(conninfo: str) -> bool:
    """Say whether two clients that are connected at once can use the same session.

    A pooler in transaction mode gives a client the session that became free last, or first; among
    other clients, that may be any. So several transactions are compared, with and without an open
    transaction of the other client. With only one of the two, the pooler could by chance give each
    client the same session again and again.
    """
    with closing(connect(conninfo)) as first, closing(connect(conninfo)) as second:
        before = _server_process(first)
        for _ in range(SAMPLES):
            with second.transaction():
                if _server_process(second) == before or _server_process(first) != before:
                    return True
            if _server_process(first) != before:
                return True
    return False


def connect(conninfo: str) -> psycopg.Connection[Any]:
    """Connect beside Django, without prepared statements."""
    return psycopg.connect(
        conninfo, autocommit=True, connect_timeout=CONNECT_SECONDS, prepare_threshold=None
    )


def _server_process(client: psycopg.Connection[Any]) -> int:
    with client.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()", prepare=False)
        row = cursor.fetchone()
    return int(row[0]) if row else 0


def prepare_nothing_if_pooled(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Prepare no statements on this new connection of Django's if it leads through a pooler."""
    if connection.vendor != "postgresql" or connection.alias != DEFAULT_DB_ALIAS:
        return
    client = connection.connection
    if client.prepare_threshold is not None:
        with connection.wrap_database_errors:
            if is_pooled(client):
                client.prepare_threshold = None
