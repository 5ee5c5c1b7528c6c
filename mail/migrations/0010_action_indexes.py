"""Checks the stored actions, and indexes those that are unfinished or snoozed, beside running workers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import migrations, models
from django.db.models import Q

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


def _validate(state: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE mail_action VALIDATE CONSTRAINT action_type_known")


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("mail", "0009_actions"), ("jobs", "0011_lanes")]

    operations = [
        migrations.RunPython(_validate, migrations.RunPython.noop),
        AddIndexInPassing(
            model_name="action",
            index=models.Index(fields=["id"], condition=Q(status__in=["queued", "executing"]), name="action_unfinished"),
        ),
        AddIndexInPassing(
            model_name="action",
            index=models.Index(fields=["wake_at"], condition=Q(wake_at__isnull=False), name="action_wakes"),
        ),
    ]
