"""The Gmail labels Mailroom knows, and which of them are its own."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.labels import LabelKey
from mail.models.account import MailAccount
from mail.models.thread import MAX_GMAIL_ID_LENGTH
from tenants.models import TenantModel

MAX_LABEL_LENGTH = 225


class MailLabel(TenantModel):
    """A label of one mailbox."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="mail_labels"
    )
    gmail_label_id = models.CharField(max_length=MAX_GMAIL_ID_LENGTH)
    name = models.CharField(max_length=MAX_LABEL_LENGTH)
    key = models.CharField(
        max_length=20,
        choices=[(key.value, key.value) for key in LabelKey],
        blank=True,
        default="",
        help_text="Which of Mailroom's own labels this is; empty for the person's labels.",
    )
    description = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="Tells the classifier what the label is for.",
    )
    available_to_classifier = models.BooleanField(
        default=True, db_default=True, help_text="The classifier may choose this label."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "label"
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "account", "gmail_label_id"], name="label_gmail_id_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name
