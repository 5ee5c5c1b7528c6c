"""Notification endpoints, deliveries and alerts. Dead letters from before are not alerted to."""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

import tenants.encryption
from tenants.rls import protect

CHANNEL = {"choices": [("email", "email"), ("webhook", "webhook")], "max_length": 10}
CHANNEL_KNOWN = models.Q(channel__in=["email", "webhook"])
STATUSES = ["sending", "delivered", "failed", "refused"]
UNCONSTRAINED = {"db_constraint": False, "db_index": False, "on_delete": django.db.models.deletion.DO_NOTHING, "related_name": "+"}
ALERTED = {"default": False, "help_text": "Whether the alerts have taken it in."}


def _limit_lock_waits(state: Any, schema_editor: Any) -> None:
    """Fail rather than let workers that dead-letter jobs wait behind a wait for the table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _id() -> models.UUIDField[Any, Any]:
    return models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)


def _firm() -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(to="tenants.firm", **UNCONSTRAINED)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0020_idempotent_requests"), ("tenants", "0008_request_counts")]

    operations = [
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        migrations.CreateModel(
            name="NotificationEndpoint",
            fields=[
                ("id", _id()),
                ("name", models.CharField(max_length=100)),
                ("channel", models.CharField(**CHANNEL)),
                ("target", models.CharField(help_text="The e-mail address, or the URL of the webhook.", max_length=500)),
                ("events", models.JSONField(default=list, help_text="The events that it gets.")),
                ("enabled", models.BooleanField(default=True)),
                ("signing_key", tenants.encryption.EncryptedTextField(blank=True, default="", help_text="What webhooks are signed with; encrypted.")),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("firm", _firm()),
            ],
            options={"verbose_name": "notification endpoint"},
        ),
        migrations.AddConstraint(
            model_name="notificationendpoint",
            constraint=models.UniqueConstraint(fields=("firm", "name"), name="endpoint_name_once"),
        ),
        migrations.AddConstraint(
            model_name="notificationendpoint",
            constraint=models.CheckConstraint(condition=CHANNEL_KNOWN, name="endpoint_channel_known"),
        ),
        migrations.CreateModel(
            name="FailureAlert",
            fields=[
                ("id", _id()),
                ("fingerprint", models.CharField(max_length=32)),
                ("new_alerted_at", models.DateTimeField(help_text="Of newly dead jobs.", null=True)),
                ("unreviewed_alerted_at", models.DateTimeField(help_text="Of dead letters that waited too long for a review.", null=True)),
                ("firm", _firm()),
            ],
        ),
        migrations.AddConstraint(
            model_name="failurealert",
            constraint=models.UniqueConstraint(fields=("firm", "fingerprint"), name="failure_alert_once"),
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", _id()),
                ("channel", models.CharField(**CHANNEL)),
                ("event", models.CharField(blank=True, default="", max_length=100)),
                ("recipient", models.TextField(help_text="Of a webhook the host alone.")),
                ("job_id", models.UUIDField(help_text="The job that sent it.")),
                ("attempt", models.SmallIntegerField(help_text="Of the job.")),
                ("status", models.CharField(choices=[(word, word) for word in STATUSES], default="sending", max_length=10)),
                ("status_code", models.SmallIntegerField(help_text="The HTTP status of the answer.", null=True)),
                ("error", models.TextField(blank=True, default="", help_text="Redacted.")),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ("finished_at", models.DateTimeField(null=True)),
                ("endpoint", models.ForeignKey(null=True, to="jobs.notificationendpoint", **UNCONSTRAINED)),
                ("firm", _firm()),
            ],
            options={"verbose_name_plural": "deliveries"},
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(condition=CHANNEL_KNOWN, name="delivery_channel_known"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(condition=models.Q(status__in=STATUSES), name="delivery_status_known"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["firm", "id"], name="delivery_newest"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["firm", "job_id"], name="delivery_of_job"),
        ),
        protect("jobs", "NotificationEndpoint", "FailureAlert", "Delivery", engine=True),
        # The rows that are there get the first default, without being written; new ones the second.
        migrations.AddField(
            model_name="deadletterqueue",
            name="alerted",
            field=models.BooleanField(db_default=True, **ALERTED),
        ),
        migrations.AlterField(
            model_name="deadletterqueue",
            name="alerted",
            field=models.BooleanField(db_default=False, **ALERTED),
        ),
        migrations.AddIndex(
            model_name="deadletterqueue",
            index=models.Index(condition=models.Q(alerted=False), fields=["id"], name="dead_letter_unalerted"),
        ),
    ]
