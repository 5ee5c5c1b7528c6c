"""An index of the jobs that ended and did not complete, so that no list of them reads all history.

Built beside the traffic where the database can, as the index of 0011 is.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("jobs", "0038_step_started_at")]

    operations = [
        AddIndexInPassing(
            model_name="jobqueue",
            index=models.Index(
                fields=["job_id", "firm"],
                condition=Q(completed_at__isnull=False, result__isnull=True),
                name="job_without_result",
            ),
        ),
    ]
