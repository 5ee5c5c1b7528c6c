"""Counters of settled jobs are inserted as deltas, which maintenance folds into the minutes.

Workers of the version before go on with the minutes themselves: both may run side by side. On the
way back what was not folded yet is added to the minutes before the table goes.
"""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect
from tenants.local_settings import ENGINE_SETTING

COUNTERS = ("completed", "failed", "dlq", "canceled", "retried", "wait_ms", "run_ms")
NEW_ID = {"postgresql": "gen_random_uuid()", "sqlite": "lower(hex(randomblob(16)))"}
FOLD_SQL = f"""
INSERT INTO jobs_jobminute (id, firm_id, category, minute, {", ".join(COUNTERS)})
SELECT {{new_id}}, firm_id, category, minute, {", ".join(f"sum({name})" for name in COUNTERS)}
FROM jobs_jobminutedelta WHERE true
GROUP BY firm_id, category, minute ORDER BY firm_id, category, minute
ON CONFLICT (firm_id, category, minute) DO UPDATE
SET {", ".join(f"{name} = jobs_jobminute.{name} + excluded.{name}" for name in COUNTERS)}
"""


def _keep_minutes(state: Any, schema_editor: Any) -> None:
    """Do nothing: there are no deltas yet."""


def _fold_all(state: Any, schema_editor: Any) -> None:
    vendor = schema_editor.connection.vendor
    if vendor == "postgresql":
        schema_editor.execute(f"SELECT set_config('{ENGINE_SETTING}', 'on', true)")
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")
        # What is inserted later would be lost with the table.
        schema_editor.execute("LOCK TABLE jobs_jobminutedelta IN ACCESS EXCLUSIVE MODE")
    schema_editor.execute(FOLD_SQL.format(new_id=NEW_ID[vendor]))


class Migration(migrations.Migration):
    dependencies = [("jobs", "0011_lanes")]

    operations = [
        migrations.CreateModel(
            name="JobMinuteDelta",
            fields=[
                ("id", models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ("minute", models.DateTimeField()),
                ("category", models.CharField(choices=[("ingestion", "ingestion"), ("sync", "sync"), ("recurrence", "recurrence"), ("orchestration", "orchestration"), ("documents", "documents"), ("notifications", "notifications"), ("export", "export"), ("maintenance", "maintenance")], max_length=20)),
                ("completed", models.IntegerField(db_default=0, default=0)),
                ("failed", models.IntegerField(db_default=0, default=0)),
                ("dlq", models.IntegerField(db_default=0, default=0)),
                ("canceled", models.IntegerField(db_default=0, default=0)),
                ("retried", models.IntegerField(db_default=0, default=0)),
                ("wait_ms", models.BigIntegerField(db_default=0, default=0, help_text="Sum over settled jobs.")),
                ("run_ms", models.BigIntegerField(db_default=0, default=0, help_text="Sum over settled jobs.")),
                ("firm", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="+", to="tenants.firm")),
            ],
        ),
        protect("jobs", "JobMinuteDelta", engine=True),
        migrations.RunPython(_keep_minutes, _fold_all),
    ]
