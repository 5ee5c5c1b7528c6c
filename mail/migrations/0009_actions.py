"""All actions, links between them, and when snoozed messages come back.

The table of actions may be large: no row of it is written or read. The new check holds for new rows
from here on; 0010 checks those that are there, beside running workers.
"""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models
from django.db.models import Q

from tenants.rls import protect

TYPES = [
    ("archive", "Archive"),
    ("apply_label", "Apply label"),
    ("remove_label", "Remove label"),
    ("mark_read", "Mark read"),
    ("mark_unread", "Mark unread"),
    ("star", "Star"),
    ("unstar", "Unstar"),
    ("trash", "Trash"),
    ("restore", "Restore from trash"),
]
NEW_TYPES = [
    ("delete", "Delete"),
    ("snooze", "Snooze"),
    ("forward", "Forward"),
    ("auto_reply", "Reply automatically"),
    ("undo", "Undo"),
]
TYPE_KNOWN = "action_type_known"


def _limit_lock_waits(state: Any, schema_editor: Any) -> None:
    """Fail rather than let all work on mail wait behind a wait for the table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _delete_new(state: Any, schema_editor: Any) -> None:
    """Delete the actions that the version before does not know."""
    _limit_lock_waits(state, schema_editor)
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SELECT set_config('mailroom.firms', 'all', true)")
    names = ", ".join(f"'{name}'" for name, _ in NEW_TYPES)
    schema_editor.execute(f"DELETE FROM mail_action WHERE action_type IN ({names})")


class ReplaceCheck(migrations.AddConstraint):
    """Replaces a check by another of its name, on PostgreSQL without reading the rows."""

    def __init__(self, model_name: str, constraint: models.CheckConstraint, before: models.CheckConstraint) -> None:
        super().__init__(model_name, constraint)
        self.before = before

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [], {"model_name": self.model_name, "constraint": self.constraint, "before": self.before}

    def state_forwards(self, app_label: str, state: Any) -> None:
        state.remove_constraint(app_label, self.model_name_lower, self.before.name)
        state.add_constraint(app_label, self.model_name_lower, self.constraint)

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        self._replace(app_label, schema_editor, from_state, to_state, self.before, self.constraint)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        self._replace(app_label, schema_editor, from_state, to_state, self.constraint, self.before)

    def _replace(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any, old: Any, new: Any) -> None:
        from_model = from_state.apps.get_model(app_label, self.model_name)
        to_model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor != "postgresql":
            schema_editor.remove_constraint(from_model, old)
            schema_editor.add_constraint(to_model, new)
            return
        schema_editor.remove_constraint(from_model, old)
        schema_editor.execute(f"{new.create_sql(to_model, schema_editor)} NOT VALID", params=None)


def _types(known: list[tuple[str, str]]) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=Q(action_type__in=[name for name, _ in known]), name=TYPE_KNOWN
    )


class Migration(migrations.Migration):
    dependencies = [("mail", "0008_routing_rules")]

    operations = [
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="action",
            name="action_type",
            field=models.CharField(choices=TYPES + NEW_TYPES, max_length=20),
        ),
        ReplaceCheck("action", _types(TYPES + NEW_TYPES), _types(TYPES)),
        migrations.AddField(
            model_name="action",
            name="wake_at",
            field=models.DateTimeField(blank=True, help_text="When a snoozed message comes back; empty once it has.", null=True),
        ),
        migrations.AlterField(
            model_name="action",
            name="job_id",
            field=models.UUIDField(blank=True, help_text="The job that executes it, or will.", null=True),
        ),
        migrations.AlterField(
            model_name="action",
            name="parameters",
            field=models.JSONField(blank=True, default=dict, help_text="As mail/services/actions/types.py declares them."),
        ),
        migrations.AlterField(
            model_name="mailevent",
            name="event_type",
            field=models.CharField(choices=[("connected", "Connected"), ("disconnected", "Disconnected"), ("mode_changed", "Mode changed"), ("needs_reauth", "Needs to be connected again"), ("history_expired", "History expired"), ("watch_failed", "Watch not renewed"), ("label_deleted", "Label deleted in Gmail"), ("routed", "Routed"), ("ingested", "Ingested"), ("classified", "Classified"), ("action_completed", "Action completed"), ("action_failed", "Action failed"), ("sent", "Sent"), ("send_failed", "Not sent"), ("send_unknown", "Perhaps sent"), ("approval_asked", "Approval asked for"), ("approved", "Approved"), ("rejected", "Rejected"), ("approval_expired", "Approval expired"), ("undo_requested", "Undo requested"), ("action_undone", "Action undone"), ("unsnoozed", "Back from snooze")], max_length=30),
        ),
        migrations.CreateModel(
            name="ActionLink",
            fields=[
                ("id", models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ("relation", models.CharField(choices=[("undo_of", "Undo of"), ("approval_for", "Approval for"), ("spawned", "Spawned"), ("related", "Related")], max_length=20)),
                ("counts", models.BooleanField(db_default=True, default=True, help_text="False for an undo that failed.")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("cause", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="links_as_cause", to="mail.action")),
                ("effect", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="links_as_effect", to="mail.action")),
                ("firm", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="tenants.firm")),
            ],
            options={"verbose_name": "action link"},
        ),
        migrations.AddIndex(model_name="actionlink", index=models.Index(fields=["firm", "effect"], name="action_link_effect")),
        migrations.AddIndex(model_name="actionlink", index=models.Index(fields=["firm", "cause"], name="action_link_cause")),
        migrations.AddConstraint(
            model_name="actionlink",
            constraint=models.CheckConstraint(condition=Q(relation__in=["undo_of", "approval_for", "spawned", "related"]), name="action_link_relation_known"),
        ),
        migrations.AddConstraint(
            model_name="actionlink",
            constraint=models.UniqueConstraint(condition=Q(relation="undo_of", counts=True), fields=("firm", "effect"), name="action_link_one_undo"),
        ),
        protect("mail", "ActionLink"),
        migrations.RunPython(migrations.RunPython.noop, _delete_new),
    ]
