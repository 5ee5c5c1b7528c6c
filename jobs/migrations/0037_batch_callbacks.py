"""Which batch a job was enqueued for: the jobs of events get indexes, built beside the traffic."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("jobs", "0036_lock_counted_by")]

    operations = [
        AddIndexInPassing(
            model_name="batch",
            index=models.Index(
                fields=["failed_job_id"],
                condition=Q(failed_job_id__isnull=False),
                name="batch_failed_job",
            ),
        ),
        AddIndexInPassing(
            model_name="batch",
            index=models.Index(
                fields=["settled_job_id"],
                condition=Q(settled_job_id__isnull=False),
                name="batch_settled_job",
            ),
        ),
        AddIndexInPassing(
            model_name="batch",
            index=models.Index(
                fields=["completed_job_id"],
                condition=Q(completed_job_id__isnull=False),
                name="batch_completed_job",
            ),
        ),
    ]
