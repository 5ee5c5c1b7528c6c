"""The database's time, which decides what is due, and its format; the test kit can stop it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from jobs.engine import dialects
from jobs.engine.dialects.base import frozen_at


def database_now() -> datetime:
    """Return the database's time, aware."""
    dialect = dialects.current()
    with connection.cursor() as cursor:
        # Django leaves doubled percent signs alone unless there are parameters.
        cursor.execute(f"SELECT {dialect.now_sql()}", [])
        moment: datetime = dialect.read_time(cursor.fetchone()[0])
    return moment


def write_times_as_iso(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Have PostgreSQL write times as psycopg reads them, whatever DateStyle the server sets.

    Sends nothing if the DateStyle that the server reported to this connection is ISO already.
    """
    if connection.vendor != "postgresql" or connection.alias != DEFAULT_DB_ALIAS:
        return
    style = connection.connection.pgconn.parameter_status(b"DateStyle")
    if style is not None and not style.startswith(b"ISO"):
        with connection.cursor() as cursor:
            cursor.execute("SET datestyle TO 'ISO'")


@contextmanager
def stopped_at(moment: datetime) -> Iterator[None]:
    """Let every engine statement of this thread see `moment` (aware) as now."""
    if moment.tzinfo is None:
        raise ValueError("stopped_at() takes an aware datetime")
    token = frozen_at.set(moment)
    try:
        yield
    finally:
        frozen_at.reset(token)
