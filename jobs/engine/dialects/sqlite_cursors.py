"""A cursor of the sqlite3 module for the engine's statements: long texts that rarely change."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

from django.db.backends.base.base import BaseDatabaseWrapper

# The pattern that Django uses.
PARAMETER = re.compile(r"(?<!%)%s")


class ModuleCursor:
    """Bypasses Django, which takes longer to process a claim's text than SQLite to run it."""

    def __init__(self, database: BaseDatabaseWrapper) -> None:
        database.ensure_connection()
        self._database = database
        self._errors = database.wrap_database_errors
        self._cursor: sqlite3.Cursor = database.connection.cursor()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()

    def execute(self, sql: str, params: Sequence[Any]) -> None:
        """Run a statement with Django's placeholders; raises Django's errors."""
        # As Django's cursor does; otherwise SQLite would accept writes that are never committed.
        self._database.validate_no_broken_transaction()
        with self._errors:
            self._cursor.execute(_with_own_placeholders(sql), params)

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        with self._errors:
            return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        with self._errors:
            return self._cursor.fetchall()

    @property
    def rowcount(self) -> int:
        """How many rows the statement touched."""
        return self._cursor.rowcount


@lru_cache(maxsize=64)
def _with_own_placeholders(sql: str) -> str:
    return PARAMETER.sub("?", sql).replace("%%", "%")
