"""Has PostgreSQL write times as psycopg reads them, whatever DateStyle the server or the role sets."""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.backends.base.base import BaseDatabaseWrapper


def write_times_as_iso(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Set it on this new connection of Django's, unless it is so, which the server has told."""
    if connection.vendor != "postgresql" or connection.alias != DEFAULT_DB_ALIAS:
        return
    style = connection.connection.pgconn.parameter_status(b"DateStyle")
    if style is not None and not style.startswith(b"ISO"):
        with connection.cursor() as cursor:
            cursor.execute("SET datestyle TO 'ISO'")
