"""Grants to people other than the owner to read a mailbox's mail."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from mail.models.account import MailAccount
from tenants.models import TenantModel


class GrantKind(models.TextChoices):
    """Why somebody may read the mail."""

    GRANTED = "granted", "Granted by the owner"
    BREAK_GLASS = "break_glass", "Break-glass"


class ContentGrant(TenantModel):
    """Lets one person read one mailbox's mail, for good or until it expires."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="content_grants"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=20, choices=GrantKind)
    reason = models.TextField(blank=True, default="")
    granted_by = models.CharField(max_length=200, help_text="Who did it, as the audit log says.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty means never.")

    class Meta:
        verbose_name = "content grant"
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "account", "user", "kind"], name="content_grant_once"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=GrantKind.values), name="content_grant_kind_known"
            ),
        ]
        indexes = [models.Index(fields=["firm", "user"], name="content_grant_of_user")]

    def __str__(self) -> str:
        return f"{self.user} ({self.kind})"
