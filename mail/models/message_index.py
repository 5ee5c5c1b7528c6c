"""The index by which search finds messages."""

from __future__ import annotations

from django.db import models

from mail.models.account import MailAccount
from mail.models.message import Message
from tenants.models import TenantModel


class MessageIndex(TenantModel):
    """The words of one message, each once; the migration adds each database's full-text index."""

    message = models.ForeignKey(
        Message, on_delete=models.CASCADE, db_index=False, related_name="search_index"
    )
    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    received_at = models.DateTimeField(help_text="The message's own.")
    words = models.TextField(blank=True, default="", help_text="In no order, by spaces.")

    class Meta:
        verbose_name = "message index"
        constraints = [
            models.UniqueConstraint(fields=["message", "firm"], name="message_index_once"),
        ]
        indexes = [models.Index(fields=["firm", "-received_at"], name="message_index_recent")]

    def __str__(self) -> str:
        return str(self.message_id)
