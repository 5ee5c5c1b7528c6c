"""Idempotency keys that expire."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def fail_rather_than_wait(state: Any, schema_editor: Any) -> None:
    """Let enqueues not wait behind a wait for their tables."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0025_jobs_by_user")]

    operations = [
        migrations.RunPython(fail_rather_than_wait, migrations.RunPython.noop),
        migrations.AddField(
            model_name="idempotencykey",
            name="expires_at",
            field=models.DateTimeField(blank=True, help_text="Unknown: never.", null=True),
        ),
        migrations.AddField(
            model_name="fanin",
            name="unique_for",
            field=models.FloatField(blank=True, help_text="Seconds.", null=True),
        ),
    ]
