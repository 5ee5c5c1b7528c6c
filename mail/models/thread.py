"""Conversations: their category and their state."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.llm.base import Category
from mail.models.account import MailAccount
from tenants.models import TenantModel

MAX_GMAIL_ID_LENGTH = 64


class ThreadStatus(models.TextChoices):
    """The state of a conversation."""

    PENDING = "pending", "Pending"
    DRAFTED = "drafted", "Drafted"
    SENT = "sent", "Sent"
    SKIPPED = "skipped", "Skipped"
    ARCHIVED = "archived", "Archived"


CATEGORY_CHOICES = [
    (Category.NEEDS_RESPONSE.value, "Needs response"),
    (Category.ACTION_REQUIRED.value, "Action required"),
    (Category.PAYMENT_REQUEST.value, "Payment request"),
    (Category.FYI.value, "FYI"),
    (Category.WAITING.value, "Waiting"),
]


class MailThread(TenantModel):
    """A conversation in one mailbox."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="threads"
    )
    gmail_thread_id = models.CharField(max_length=MAX_GMAIL_ID_LENGTH)
    subject = models.TextField(blank=True, default="", help_text="Of the newest message.")
    classification = models.CharField(
        max_length=20, choices=CATEGORY_CHOICES, blank=True, default="", help_text="Empty at first."
    )
    status = models.CharField(max_length=10, choices=ThreadStatus, default=ThreadStatus.PENDING)
    message_count = models.PositiveIntegerField(default=0)
    last_message_at = models.DateTimeField(null=True, blank=True)
    classified_upto = models.ForeignKey(
        "mail.Message",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="The newest message the classification has seen; a newer one re-opens it.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "thread"
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "account", "gmail_thread_id"], name="thread_gmail_id_once"
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=ThreadStatus.values), name="thread_status_known"
            ),
        ]
        indexes = [
            # By this the database finds the threads that refer to a message that is deleted.
            models.Index(
                fields=["classified_upto"],
                condition=models.Q(classified_upto__isnull=False),
                name="thread_classified_upto",
            ),
            models.Index(fields=["firm", "-last_message_at"], name="thread_recent"),
            # The order of the list of whoever sees every firm.
            models.Index(fields=["-last_message_at", "-id"], name="thread_newest"),
            models.Index(fields=["firm", "classification", "status"], name="thread_state"),
        ]

    def __str__(self) -> str:
        return self.gmail_thread_id
