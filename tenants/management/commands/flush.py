"""`manage.py flush`: Django's command, which on SQLite the audit log's triggers would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.commands import flush
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tenants.models import AuditEntry


class Command(flush.Command):
    """Empties every table. The audit log still refuses to delete a single entry."""

    def handle(self, **options: Any) -> None:
        """Empty the database."""
        database = connections[options["database"]]
        if database.vendor != "sqlite":
            # PostgreSQL flushes with TRUNCATE, which does not fire the triggers on DELETE.
            super().handle(**options)
            return
        with _without_triggers(database):
            super().handle(**options)


@contextmanager
def _without_triggers(database: BaseDatabaseWrapper) -> Iterator[None]:
    """Let the block's flush drop the audit log's triggers, and make them again, in one transaction."""
    ops: Any = database.ops
    execute = ops.execute_sql_flush

    def execute_past_triggers(statements: list[str]) -> None:
        with transaction.atomic(using=database.alias), database.cursor() as cursor:
            cursor.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s",
                [AuditEntry._meta.db_table],
            )
            triggers = cursor.fetchall()
            for name, _ in triggers:
                cursor.execute(f"DROP TRIGGER {name}")
            execute(statements)
            for _, sql in triggers:
                cursor.execute(sql)

    ops.execute_sql_flush = execute_past_triggers
    try:
        yield
    finally:
        del ops.execute_sql_flush
