"""Lock keys that count over all firms.

The new columns are filled by the database's defaults, so that PostgreSQL writes no row. SQLite makes
the table of jobs anew, which it refuses while a trigger reads it: the trigger of 0034 is made anew, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import migrations, models

dead_letter_kinds = import_module("jobs.migrations.0034_dead_letter_kinds")


def _limit_lock_waits(state: Any, schema_editor: Any) -> None:
    """Fail rather than let all of the queue wait behind a wait for the table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _drop_trigger(state: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "sqlite":
        dead_letter_kinds._drop_trigger(state, schema_editor)


def _make_trigger(state: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "sqlite":
        dead_letter_kinds._make_trigger(state, schema_editor)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0035_open_dead_letters")]

    operations = [
        migrations.RunPython(_drop_trigger, _make_trigger),
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        migrations.AddField(
            model_name="jobqueue",
            name="lock_counted_by",
            field=models.CharField(db_default="firm", default="firm", help_text="Whose jobs with this lock key count: the firm's, or those of all firms.", max_length=10),
        ),
        migrations.AddField(
            model_name="fanin",
            name="lock_counted_by",
            field=models.CharField(db_default="firm", default="firm", max_length=10),
        ),
        migrations.RunPython(_make_trigger, _drop_trigger),
    ]
