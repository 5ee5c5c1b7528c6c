"""All that differs between PostgreSQL and SQLite, and nothing else."""

from __future__ import annotations

from functools import cache

from django.db import connection

from jobs.engine.dialects.base import (
    LOCK_TIMEOUT_MILLISECONDS,
    SHORT_LOCK_TIMEOUT_MILLISECONDS,
    Column,
    Dialect,
)
from jobs.engine.dialects.postgresql import PostgresDialect
from jobs.engine.dialects.sqlite import SqliteDialect

__all__ = [
    "LOCK_TIMEOUT_MILLISECONDS",
    "SHORT_LOCK_TIMEOUT_MILLISECONDS",
    "Column",
    "Dialect",
    "current",
]

_DIALECTS: dict[str, Dialect] = {"postgresql": PostgresDialect(), "sqlite": SqliteDialect()}


@cache
def current() -> Dialect:
    """Return the dialect of the default database, which stays what it is."""
    return _DIALECTS[connection.vendor]
