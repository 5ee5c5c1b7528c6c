"""Counters of what operators do to jobs that are over: discards, and restarts of failed and canceled.

Columns with a constant default: neither table is rewritten, and the workers of the version before
go on without them.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

HELP = {
    "discarded": "From dlq to failed, by an operator.",
    "failed_restarted": "From failed to pending, by an operator.",
    "canceled_restarted": "From canceled to pending, by an operator.",
}


def _limit_waiting(state: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0013_unfired_fan_ins")]

    operations = [
        migrations.RunPython(_limit_waiting, _limit_waiting),
        *(
            migrations.AddField(
                model_name=model,
                name=name,
                field=models.IntegerField(db_default=0, default=0, help_text=text),
            )
            for model in ("jobminute", "jobminutedelta")
            for name, text in HELP.items()
        ),
    ]
