"""An index of the fan-ins that have not fired, which the sweep reads every few seconds."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("jobs", "0012_minute_deltas")]

    operations = [
        AddIndexInPassing(
            model_name="fanin",
            index=models.Index(fields=["id"], condition=Q(fired_at__isnull=True), name="fan_in_unfired"),
        ),
    ]
