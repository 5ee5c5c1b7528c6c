"""The second wall on the queue's tables, open to the queue's engine."""

from django.db import migrations

from tenants.rls import protect


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_lease_tokens")]

    operations = [
        protect(
            "jobs",
            "JobQueue",
            "DeadLetterQueue",
            "Attempt",
            "JobStep",
            "ConcurrencyLock",
            "IdempotencyKey",
            "JobMinute",
            engine=True,
        )
    ]
