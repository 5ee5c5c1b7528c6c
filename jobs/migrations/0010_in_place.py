"""Writes claims, and the lists of what workers have started, more cheaply.

A claim's row version is longer than the one before it, by the times and ids that were null: half of
a page is too little for those of a page that is claimed as a whole. What is stored already stays as
it lies.

The list of started jobs becomes bytes; those of workers that run meanwhile are lost. Should one of
them die before its next hand-over, the attempts it had started are given back.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations

import jobs.models.base


def set_fillfactor(percent: int) -> Any:
    def alter(state: Any, schema_editor: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(f"ALTER TABLE jobs_jobqueue SET (fillfactor = {percent})")

    return alter


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_breaker")]

    operations = [
        migrations.RunPython(set_fillfactor(45), set_fillfactor(50)),
        migrations.RemoveField(model_name="worker", name="running"),
        migrations.AddField(
            model_name="worker",
            name="running",
            field=jobs.models.base.IdsField(
                help_text="Ids of the jobs whose handlers were started and not yet settled."
            ),
        ),
    ]
