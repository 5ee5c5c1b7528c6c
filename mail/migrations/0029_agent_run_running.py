"""Indexes the agents' runs that go on, among which those are looked for whose jobs are over."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("mail", "0028_direction_enabled_by"), ("jobs", "0011_lanes")]

    operations = [
        AddIndexInPassing(
            model_name="agentrun",
            index=models.Index(
                fields=["job_id"],
                condition=Q(status="running"),
                name="agent_run_running",
            ),
        ),
    ]
