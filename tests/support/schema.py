"""The database's description of its tables, so that two databases can be compared."""

from __future__ import annotations

import re
from typing import Any

from django.db import connection

from tests.queue_kit import table_rows

POSTGRESQL = {
    "column": """
        SELECT table_name, column_name, data_type, is_nullable, coalesce(column_default, ''),
            coalesce(character_maximum_length, 0)
        FROM information_schema.columns WHERE table_schema = 'public'
    """,
    "index": "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "constraint": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "policy": "SELECT tablename, policyname, cmd, qual, with_check FROM pg_policies",
    "table": """
        SELECT relname, relkind, relrowsecurity, relforcerowsecurity, reloptions::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')
    """,
    "storage": """
        SELECT attrelid::regclass::text, attname, attstorage FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0
          AND NOT attisdropped
    """,
    "trigger": "SELECT tgrelid::regclass::text, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
}
# PostgreSQL writes an expression differently after it was read from a dump.
CASTS = re.compile(r"::[a-z ]+(?:\[\])?|[()\s]")
SQLITE = {
    # A column that was added later comes behind the others.
    "column": """
        SELECT m.name, c.name, c.type, c."notnull", c.dflt_value FROM sqlite_master m
        JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'
    """,
    "other": "SELECT tbl_name, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger')",
}


def described() -> set[tuple[Any, ...]]:
    """Return a tuple for each column, index, constraint, policy and trigger."""
    kinds = POSTGRESQL if connection.vendor == "postgresql" else SQLITE
    found = {
        (kind, *(CASTS.sub("", one) if isinstance(one, str) else one for one in row))
        for kind, sql in kinds.items()
        for row in table_rows(sql)
    }
    return found | _checks()


def _checks() -> set[tuple[Any, ...]]:
    """Return the checks of SQLite, which are in the SQL of their tables."""
    if connection.vendor != "sqlite":
        return set()
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        return {
            ("check", table, name)
            for table in tables
            for name, one in connection.introspection.get_constraints(cursor, table).items()
            if one["check"]
        }
