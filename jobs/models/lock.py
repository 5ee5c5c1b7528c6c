"""`ConcurrencyLock`: one row per held lock slot, of jobs and of users."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.base import QueueModel

# The prefix of `holder_id` for a job's own lock; the job's id follows.
JOB_HOLDER = "job:"


def held_at(moment: datetime) -> Q:
    """Return the condition that a lock is held at that time: users' locks expire."""
    return Q(expires_at__isnull=True) | Q(expires_at__gte=moment)


class ConcurrencyLock(QueueModel):
    """A held lock. A job's lock never expires: it is released when its attempt ends."""

    lock_key = models.CharField(max_length=200)
    slot = models.SmallIntegerField(default=0, help_text="From 0 to the key's limit minus one.")
    holder_id = models.CharField(max_length=200, help_text="job:<id> for a job's own lock.")
    acquired_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    fencing_token = models.BigIntegerField()

    class Meta:
        verbose_name = "lock"
        verbose_name_plural = "locks"
        constraints = [
            models.UniqueConstraint(fields=["firm", "lock_key", "slot"], name="lock_slot_once")
        ]
        indexes = [models.Index(fields=["holder_id"], name="lock_holder")]

    def __str__(self) -> str:
        return self.lock_key
