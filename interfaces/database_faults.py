"""Explains in one line why a database cannot be used as it is, and what to do about it."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from interfaces.redaction import redact

UNDEFINED_TABLE, UNDEFINED_COLUMN = "42P01", "42703"
# The role may only read, or the database is read-only: no mistake of the code's.
READ_ONLY, NO_PRIVILEGE = "25006", "42501"
# Serialization failure, deadlock, lock not available.
CONFLICTS = frozenset({"40001", "40P01", "55P03"})
NO_TABLE = re.compile(r"no such table")
NO_COLUMN = re.compile(r"no such column|table \S+ has no column named")
NO_OPTION = "invalid connection option"
MEND = "run manage.py migrate"
MOST_CHARACTERS = 400
IO_ERROR = "disk I/O error"
# SQLite maps its index of the log in pieces of 32 KiB.
ROOM_TO_OPEN_BYTES = 64 * 1024


def not_migrated(error: BaseException) -> str:
    """Return a line that names the missing table or column and what to do; empty for any other error."""
    if not isinstance(error, DatabaseError):
        return ""
    said = str(error).partition("\n")[0]
    undefined = _state(error) in (UNDEFINED_TABLE, UNDEFINED_COLUMN)
    if not undefined and not NO_TABLE.match(said) and not NO_COLUMN.match(said):
        return ""
    return f"{said}: {MEND}"


def unusable(error: BaseException) -> str:
    """Return a line that says why the database cannot be used; empty if a statement was at fault.

    It cannot be reached, refuses the role, is read-only, is no database or has no room.
    """
    if not isinstance(error, DatabaseError | InterfaceError):
        return ""
    of_the_database = isinstance(error, OperationalError | InterfaceError)
    said = redact(" ".join(str(error).split()), MOST_CHARACTERS) or type(error).__name__
    # SQLite's "file is not a database" is a plain DatabaseError, and psycopg raises the wrong class
    # for the wrong name of an option.
    misnamed = type(error) is DatabaseError or said.startswith(NO_OPTION)
    if not of_the_database and not misnamed and _state(error) not in (READ_ONLY, NO_PRIVILEGE):
        return ""
    if connection.vendor != "sqlite":
        return f"the database cannot be used: {said}"
    # PostgreSQL names itself; SQLite does not say which file.
    name = str(connection.settings_dict["NAME"])
    # Opening a file takes room too; without it SQLite says only "disk I/O error".
    why = " (its disk is full)" if said == IO_ERROR and _is_disk_full(name) else ""
    return f"the database {name} cannot be used: {said}{why}"


def is_conflict(error: DatabaseError) -> bool:
    """Say whether another transaction was in the way, so that a repeat can cure the error."""
    return _state(error) in CONFLICTS


def _is_disk_full(name: str) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(Path(name).parent).free < ROOM_TO_OPEN_BYTES
    return False


def _state(error: BaseException) -> str | None:
    state: str | None = getattr(error.__cause__, "sqlstate", None)
    return state
