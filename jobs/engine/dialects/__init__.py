"""All that differs between PostgreSQL and SQLite, and nothing else."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import ForeignKey, IntegerField, UUIDField

from jobs.engine.dialects.base import (
    LOCK_TIMEOUT_MILLISECONDS,
    SHORT_LOCK_TIMEOUT_MILLISECONDS,
    Column,
    Dialect,
)

__all__ = [
    "LOCK_TIMEOUT_MILLISECONDS",
    "SHORT_LOCK_TIMEOUT_MILLISECONDS",
    "Column",
    "Dialect",
    "current",
    "user_column",
]


@cache
def current() -> Dialect:
    """Return the dialect of the default database, which stays what it is."""
    # The other one's database driver is not loaded.
    if connection.vendor == "postgresql":
        from jobs.engine.dialects.postgresql import PostgresDialect

        return PostgresDialect()
    from jobs.engine.dialects.sqlite import SqliteDialect

    return SqliteDialect()


@cache
def user_column() -> Column:
    """Return the type of a column with ids of users, which is that of AUTH_USER_MODEL's key."""
    key: Any = get_user_model()._meta.pk
    while isinstance(key, ForeignKey):
        key = key.target_field
    if isinstance(key, UUIDField):
        return Column.UUID
    return Column.BIGINT if isinstance(key, IntegerField) else Column.TEXT
