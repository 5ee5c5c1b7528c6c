"""`IdempotentRequest`: a REST request that named an `Idempotency-Key`, and its answer."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from interfaces.stored_json import StoredJSONField
from jobs.models.base import UNCONSTRAINED, QueueModel


class IdempotentRequest(QueueModel):
    """A request that changed something, kept to answer it again in the same way.

    It belongs to its API key's firm; requests of sessions and of platform staff to the system firm.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, related_name="+", **UNCONSTRAINED)
    key = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="A hash of method, address and body.")
    answer_status = models.SmallIntegerField(null=True)
    answer = StoredJSONField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "user", "key"], name="idempotent_request_once"),
        ]
        indexes = [models.Index(fields=["firm", "created_at"], name="idempotent_request_age")]

    def __str__(self) -> str:
        return self.key
