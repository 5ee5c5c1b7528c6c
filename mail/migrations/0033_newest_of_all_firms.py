"""Indexes in the order of the lists of messages and threads, for those who see every firm.

Built beside the traffic where the database can.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("mail", "0032_indexes_by_reference"), ("jobs", "0011_lanes")]

    operations = [
        AddIndexInPassing(
            model_name="message",
            index=models.Index(fields=["-internal_date", "-id"], name="message_newest"),
        ),
        AddIndexInPassing(
            model_name="mailthread",
            index=models.Index(fields=["-last_message_at", "-id"], name="thread_newest"),
        ),
    ]
