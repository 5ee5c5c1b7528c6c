"""`JobMinute`: counters per minute, so that statistics need not count jobs."""

from __future__ import annotations

from django.db import models

from jobs.models.base import QueueModel
from jobs.states import Category


class JobMinute(QueueModel):
    """Settled jobs of one firm and category in one minute."""

    minute = models.DateTimeField()
    category = models.CharField(
        max_length=20, choices=[(word.value, word.value) for word in Category]
    )
    completed = models.IntegerField(default=0, db_default=0)
    failed = models.IntegerField(default=0, db_default=0)
    dlq = models.IntegerField(default=0, db_default=0)
    canceled = models.IntegerField(default=0, db_default=0)
    retried = models.IntegerField(default=0, db_default=0)
    wait_ms = models.BigIntegerField(default=0, db_default=0, help_text="Sum over settled jobs.")
    run_ms = models.BigIntegerField(default=0, db_default=0, help_text="Sum over settled jobs.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "category", "minute"], name="job_minute_once")
        ]
        indexes = [models.Index(fields=["minute"], name="job_minute_newest")]

    def __str__(self) -> str:
        return f"{self.category} {self.minute}"
