"""Leaves room in the two indexes that name every job, whatever its state.

When a job is settled, both get a second entry for it, next to the first. A page that was filled to 90 %,
as PostgreSQL does, has no room for those: it is searched for dead entries, packed, and split at last.
What is stored already stays as it lies.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations

INDEXES = ("jobs_jobqueue_pkey", "job_firm")


def leave_room(state: Any, schema_editor: Any) -> None:
    _alter(schema_editor, "SET (fillfactor = 45)")


def as_by_default(state: Any, schema_editor: Any) -> None:
    _alter(schema_editor, "RESET (fillfactor)")


def _alter(schema_editor: Any, change: str) -> None:
    if schema_editor.connection.vendor != "postgresql":
        return
    # Fail rather than wait long for an index that is being built anew.
    schema_editor.execute("SET LOCAL lock_timeout = '5s'")
    for index in INDEXES:
        schema_editor.execute(f"ALTER INDEX {index} {change}")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0040_plain_help_texts")]

    operations = [migrations.RunPython(leave_room, as_by_default)]
