"""An index of ready jobs by kind, for workers of some categories or types only.

Built beside the traffic where the database can: the queue goes on meanwhile.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import Q


class AddIndexInPassing(migrations.AddIndex):
    """Adds the index, and on PostgreSQL without barring writes meanwhile.

    Such a build is not rolled back when it, or a later one of the migration, breaks off. If the
    migration is run again, what was built stays, and an invalid index is built anew.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Build it."""
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        is_valid = _validity(schema_editor, self.index.name)
        if is_valid is False:
            schema_editor.remove_index(model, self.index, concurrently=True)
        if not is_valid:
            schema_editor.add_index(model, self.index, concurrently=True)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        """Drop it."""
        if schema_editor.connection.vendor != "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
            return
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            schema_editor.remove_index(model, self.index, concurrently=True)


def _validity(schema_editor: Any, name: str) -> bool | None:
    """Return whether PostgreSQL's index is valid, None if there is none of this name."""
    if schema_editor.collect_sql:
        return None
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)",
            [schema_editor.quote_name(name)],
        )
        row = cursor.fetchone()
    return None if row is None else bool(row[0])


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("jobs", "0010_in_place")]

    operations = [
        AddIndexInPassing(
            model_name="jobqueue",
            index=models.Index(
                fields=["category", "job_type", "priority", "firm", "scheduled_at", "job_id"],
                condition=Q(ready=True),
                name="job_lane",
            ),
        ),
    ]
