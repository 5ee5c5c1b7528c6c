"""The Pub/Sub messages that were accepted, so that a repeated one is recognised by its id."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.gmail.push import MAX_ID_LENGTH
from mail.models.account import MailAccount
from tenants.models import TenantModel


class PushReceipt(TenantModel):
    """A notification accepted for a mailbox; kept for as long as Pub/Sub may repeat it."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="push_receipts"
    )
    message_id = models.CharField(max_length=MAX_ID_LENGTH, help_text="Pub/Sub's messageId.")
    history_id = models.BigIntegerField()
    received_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "push receipt"
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "account", "message_id"], name="push_receipt_once"
            ),
        ]

    def __str__(self) -> str:
        return self.message_id
