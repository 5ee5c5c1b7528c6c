"""An index of jobs by the user on whose behalf they run; those of nobody are not in it.

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

    dependencies = [("jobs", "0024_notes_in_the_row")]

    operations = [
        AddIndexInPassing(
            model_name="jobqueue",
            index=models.Index(
                fields=["user", "job_id"], condition=Q(user__isnull=False), name="job_user"
            ),
        ),
    ]
