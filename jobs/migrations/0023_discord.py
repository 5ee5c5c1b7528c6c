"""Discord is a channel of notifications beside e-mail and webhook."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

CHANNELS = ["email", "webhook", "discord"]
CHANNEL = {"choices": [(word, word) for word in CHANNELS], "max_length": 10}
CHANNEL_KNOWN = models.Q(channel__in=CHANNELS)


def _limit_lock_waits(state: Any, schema_editor: Any) -> None:
    """Fail rather than let workers that record deliveries wait behind a wait for the table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _known_on(model: str, name: str) -> list[Any]:
    constraint = models.CheckConstraint(condition=CHANNEL_KNOWN, name=name)
    return [
        migrations.AlterField(model, "channel", models.CharField(**CHANNEL)),
        migrations.RemoveConstraint(model, name),
        migrations.AddConstraint(model, constraint),
    ]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0022_fan_in_priority")]

    operations = [
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        *_known_on("notificationendpoint", "endpoint_channel_known"),
        *_known_on("delivery", "delivery_channel_known"),
    ]
