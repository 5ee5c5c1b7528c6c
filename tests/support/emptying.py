"""Empties the database after a test that committed, much faster than `flush` does.

`flush` truncates every table and writes the permissions anew. This empties only the tables with
rows, and keeps what the migrations wrote.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.apps import apps
from django.db import OperationalError, connection
from psycopg.errors import DeadlockDetected

from tenants.models import SYSTEM_SLUG
from tenants.scope import all_firms

KEPT = {"django_content_type", "auth_permission"}
FIRMS = "tenants_firm"
ATTEMPTS = 5
# The foreign keys of the database: the table that has the key, and the table it refers to.
REFERENCES = """
    SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
    WHERE contype = 'f' AND conrelid <> confrelid
"""


def empty_used_tables() -> None:
    """Delete all rows except those that the migrations wrote.

    A page that a browser asked for may still be read, which can be a deadlock; then this is
    repeated.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            _empty()
        except OperationalError as error:
            if not left or not isinstance(error.__cause__, DeadlockDetected):
                raise
        else:
            return


def _empty() -> None:
    with all_firms("test"), connection.cursor() as cursor:
        used = _used(cursor)
        if connection.vendor == "postgresql":
            _truncate(cursor, used)
        else:
            for table in used:
                _delete_all(cursor, table)
            _forget_statistics(cursor)
        cursor.execute(f"DELETE FROM {FIRMS} WHERE slug <> %s", [SYSTEM_SLUG])


@cache
def _tables() -> list[str]:
    models = apps.get_models(include_auto_created=True)
    return sorted({model._meta.db_table for model in models} - KEPT - {FIRMS})


def _used(cursor: Any) -> list[str]:
    if connection.vendor == "postgresql":
        # Found by size, because a query that reads every table costs more than most tests.
        cursor.execute(
            "SELECT name FROM unnest(%s::text[]) AS name WHERE pg_relation_size(name::regclass) > 0",
            [_tables()],
        )
        return [table for (table,) in cursor.fetchall()]
    columns = ", ".join(f"EXISTS (SELECT 1 FROM {table})" for table in _tables())
    cursor.execute(f"SELECT {columns}")
    return [table for table, used in zip(_tables(), cursor.fetchone(), strict=True) if used]


def _delete_all(cursor: Any, table: str) -> None:
    """Delete all rows, also of a table whose trigger forbids that."""
    cursor.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        " AND tbl_name = %s AND sql LIKE '%%RAISE%%'",
        [table],
    )
    triggers = cursor.fetchall()
    for name, _ in triggers:
        cursor.execute(f"DROP TRIGGER {name}")
    cursor.execute(f"DELETE FROM {table}")
    for _, sql in triggers:
        cursor.execute(sql)


def _forget_statistics(cursor: Any) -> None:
    """Delete the planner's statistics, because the tables of the next test have other contents."""
    cursor.execute("SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat_'")
    found = cursor.fetchall()
    for (table,) in found:
        cursor.execute(f"DROP TABLE {table}")
    if found:
        # The connection keeps the statistics it has read until it reads the schema again.
        cursor.execute("PRAGMA writable_schema = RESET")


def _truncate(cursor: Any, used: list[str]) -> None:
    """Empty the tables, and the tables that refer to them, because PostgreSQL demands that."""
    tables: set[str] = set()
    added = set(used)
    while added:
        tables |= added
        added = {child for child, parent in _references() if parent in tables} - tables
    if tables:
        cursor.execute(f"TRUNCATE {', '.join(sorted(tables))}")


@cache
def _references() -> list[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(REFERENCES)
        return list(cursor.fetchall())
