"""The address of the configured SQLite file, for a client without Django."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection


@dataclass(frozen=True)
class SqliteAddress:
    """A file, and the statements to run on every new connection."""

    path: str
    pragmas: str


def sqlite_address() -> SqliteAddress:
    """Return the address of the SQLite file."""
    pragmas = connection.settings_dict["OPTIONS"].get("init_command", "")
    return SqliteAddress(str(connection.get_connection_params()["database"]), pragmas)
