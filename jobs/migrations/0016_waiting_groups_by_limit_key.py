"""The index of waiting jobs tells limit keys apart; built and dropped beside the traffic."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import migrations, models
from django.db.models import Case, Q, Value, When

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


class RemoveIndexInPassing(migrations.RemoveIndex):
    """Removes the index, and on PostgreSQL without barring writes meanwhile."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Drop it."""
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = from_state.apps.get_model(app_label, self.model_name)
        index = from_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.remove_index(model, index, concurrently=True)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Build it again."""
        if schema_editor.connection.vendor != "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        index = to_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.add_index(model, index, concurrently=True)


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("jobs", "0015_limit_keys")]

    operations = [
        AddIndexInPassing(
            model_name="jobqueue",
            index=models.Index(
                "firm",
                Case(When(lock_key__isnull=True, then=Value("")), default="lock_key"),
                "job_type",
                Case(When(limit_key__isnull=True, then=Value("")), default="limit_key"),
                "priority",
                "scheduled_at",
                "job_id",
                condition=Q(waiting=True),
                name="job_waiting_group",
            ),
        ),
        RemoveIndexInPassing(model_name="jobqueue", name="job_waiting"),
    ]
