"""All that differs between PostgreSQL and SQLite, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import ForeignKey, IntegerField, UUIDField

from jobs.engine.dialects.base import (
    LOCK_TIMEOUT_MILLISECONDS,
    SHORT_LOCK_TIMEOUT_MILLISECONDS,
    Column,
    Dialect,
)
from jobs.states import Status

__all__ = [
    "LOCK_TIMEOUT_MILLISECONDS",
    "SHORT_LOCK_TIMEOUT_MILLISECONDS",
    "Column",
    "Dialect",
    "current",
    "ids_sql",
    "statuses_sql",
    "user_column",
]


@cache
def current() -> Dialect:
    """Return the dialect of the default database, which never changes."""
    # Imported here, so that the other database's driver is not loaded.
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


def ids_sql(ids: Iterable[UUID]) -> tuple[str, list[Any]]:
    """Return a table `r` with these ids in its column `id`, and its parameters."""
    return current().rows_sql("r", {"id": Column.UUID}, [(one,) for one in ids])


def statuses_sql(statuses: Iterable[Status]) -> str:
    """Return the list of statuses for `status IN (…)`."""
    return ", ".join(f"'{status.value}'" for status in sorted(statuses))
