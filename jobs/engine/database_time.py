"""What time it is for the database, which decides what is due."""

from __future__ import annotations

from datetime import datetime

from django.db import connection

from jobs.engine import dialects


def database_now() -> datetime:
    """Return the database's time, aware."""
    dialect = dialects.current()
    with connection.cursor() as cursor:
        # The empty parameters keep the dialect's doubled percent signs single, as everywhere.
        cursor.execute(f"SELECT {dialect.now_sql()}", [])
        moment = dialect.read_time(cursor.fetchone()[0])
    if moment is None:
        raise RuntimeError("the database did not tell its time")
    return moment
