"""`AuditEntry`: who did which operation on what, and why. The database refuses changes."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from interfaces.stored_json import StoredJSONField
from tenants.errors import AppendOnly
from tenants.models.base import TenantModel


class AuditEntry(TenantModel):
    """One operation of a person or of the service itself."""

    # The entries outlive the firm.
    firm = models.ForeignKey(
        "tenants.Firm",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        related_name="+",
        help_text="Empty for the command line and the service itself.",
    )
    actor_name = models.CharField(max_length=200)
    door = models.CharField(max_length=20, help_text="admin, api, cli or service.")
    act = models.CharField(max_length=50, help_text="For example job.retry.")
    target_type = models.CharField(max_length=50)
    target_id = models.CharField(max_length=64)
    reason = models.TextField(default="", blank=True)
    before = StoredJSONField(default=dict)
    after = StoredJSONField(default=dict)
    correlation_id = models.CharField(max_length=64, default="", blank=True)

    class Meta:
        verbose_name = "audit entry"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["firm", "id"], name="audit_newest"),
            models.Index(fields=["firm", "target_type", "target_id"], name="audit_target"),
        ]

    def __str__(self) -> str:
        return f"{self.act} {self.target_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Append the entry.

        Raises:
            AppendOnly: the entry is stored already.
        """
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **kwargs)

    def delete(self, *_: Any, **__: Any) -> tuple[int, dict[str, int]]:
        """Refuse.

        Raises:
            AppendOnly: always.
        """
        raise AppendOnly
