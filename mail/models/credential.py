"""A mailbox's permission to use Gmail: its OAuth tokens, encrypted."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MailAccount
from tenants.encryption import EncryptedTextField
from tenants.models import TenantModel


class MailCredential(TenantModel):
    """The tokens of one connected mailbox; a disconnected one has none."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="credentials"
    )
    refresh_token = EncryptedTextField()
    access_token = EncryptedTextField(blank=True, default="")
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="When Google stops accepting the access token."
    )
    scopes: models.JSONField[list[str], list[str]] = models.JSONField(
        default=list, help_text="What Google said it granted."
    )
    connected_at = models.DateTimeField(db_default=Now(), editable=False)
    refreshed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "credential"
        constraints = [
            models.UniqueConstraint(fields=["firm", "account"], name="credential_once"),
        ]

    def __str__(self) -> str:
        return f"credential of {self.account_id}"
