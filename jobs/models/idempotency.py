"""`IdempotencyKey`: keys of once-only types, kept for ever."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from jobs.models.base import QueueModel


class IdempotencyKey(QueueModel):
    """A key that was used once and may never be used again; purging leaves it alone."""

    key = models.CharField(max_length=200)
    job_id = models.UUIDField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["firm", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return self.key
