"""An index of the idempotency keys that expire, by which they are purged."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("jobs", "0026_unique_for_a_period")]

    operations = [
        AddIndexInPassing(
            model_name="idempotencykey",
            index=models.Index(
                fields=["firm", "expires_at"],
                condition=Q(expires_at__isnull=False),
                name="idempotency_key_expiry",
            ),
        ),
    ]
