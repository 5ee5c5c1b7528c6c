"""Where the configured database is, said so that a bare client can connect to it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo


@dataclass(frozen=True)
class SqliteAddress:
    """A file, and what the service runs on every new connection to it."""

    path: str
    pragmas: str


def sqlite_address() -> SqliteAddress:
    """Return where the SQLite file is."""
    pragmas = connection.settings_dict["OPTIONS"].get("init_command", "")
    return SqliteAddress(str(connection.get_connection_params()["database"]), pragmas)


def postgresql_address() -> str:
    """Return libpq's words for the PostgreSQL."""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    params = connection.get_connection_params()
    return make_conninfo(**{name: value for name, value in params.items() if name in known})
