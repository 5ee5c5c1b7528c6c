"""Keeps the list of what a worker has started in its row.

It is some kilobytes, and written before every batch of short jobs. PostgreSQL tried to compress it,
in vain, and stored it in pieces in a table of its own: twice the processor time of the whole write.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations


def keep_in_row(state: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        # Fail rather than let heartbeats wait behind a wait for the table.
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")
        # Nearly a page; what is larger goes out of the row as it is.
        schema_editor.execute("ALTER TABLE jobs_worker SET (toast_tuple_target = 8160)")
        schema_editor.execute("ALTER TABLE jobs_worker ALTER running SET STORAGE EXTERNAL")


def as_by_default(state: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        # Fail rather than let heartbeats wait behind a wait for the table.
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")
        schema_editor.execute("ALTER TABLE jobs_worker RESET (toast_tuple_target)")
        schema_editor.execute("ALTER TABLE jobs_worker ALTER running SET STORAGE EXTENDED")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0023_discord")]

    operations = [migrations.RunPython(keep_in_row, as_by_default)]
