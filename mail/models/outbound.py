"""The messages that Mailroom sends: their content and their state."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MAX_ADDRESS_LENGTH, MailAccount
from mail.models.action import Action
from mail.models.message import Message
from mail.models.thread import MAX_GMAIL_ID_LENGTH
from tenants.models import TenantModel


class OutboundKind(models.TextChoices):
    """How the message relates to one that is stored."""

    REPLY = "reply", "Reply"
    FORWARD = "forward", "Forward"
    NEW = "new", "New message"


class OutboundStatus(models.TextChoices):
    """The state of an outbound message."""

    APPROVED_PENDING = "approved_pending", "Waiting for approval"
    QUEUED = "queued", "Queued"
    SENDING = "sending", "Sending"
    SENT = "sent", "Sent"
    FAILED = "failed", "Failed"
    CANCELED = "canceled", "Canceled"
    REJECTED = "rejected", "Rejected"
    UNKNOWN = "unknown", "Needs a look"


class OutboundMessage(TenantModel):
    """One message that a mailbox sends; its content never changes."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="outbound"
    )
    message = models.ForeignKey(
        Message,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="outbound",
        help_text="What it answers or forwards.",
    )
    action = models.ForeignKey(
        Action,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="outbound",
        help_text="The action that sends it; completed when it is sent.",
    )
    kind = models.CharField(max_length=10, choices=OutboundKind)
    automatic = models.BooleanField(
        default=False, help_text="No person wrote it, so Mailroom guards against loops."
    )
    auto_reply_to = models.CharField(
        max_length=MAX_ADDRESS_LENGTH,
        blank=True,
        default="",
        help_text="Whom an automatic reply answers, in lower case; empty for all others.",
    )
    sender: models.JSONField[dict[str, str], dict[str, str]] = models.JSONField(
        help_text="{name, address}"
    )
    to: models.JSONField[Any, Any] = models.JSONField(default=list, help_text="[{name, address}]")
    cc: models.JSONField[Any, Any] = models.JSONField(
        default=list, blank=True, help_text="[{name, address}]"
    )
    bcc: models.JSONField[Any, Any] = models.JSONField(
        default=list, blank=True, help_text="[{name, address}]"
    )
    subject = models.TextField(blank=True, default="")
    text = models.TextField(blank=True, default="")
    html = models.TextField(blank=True, default="")
    attachments: models.JSONField[Any, Any] = models.JSONField(
        default=list,
        blank=True,
        help_text="[{message_id, part_id, filename, mime_type}] by our ids, fetched when it is "
        "sent; an empty part_id is the whole message.",
    )
    rfc822_id = models.TextField(
        blank=True, default="", help_text="Its Message-ID, made from its id."
    )
    in_reply_to = models.TextField(blank=True, default="")
    references: models.JSONField[Any, Any] = models.JSONField(default=list, blank=True)
    gmail_thread_id = models.CharField(max_length=MAX_GMAIL_ID_LENGTH, blank=True, default="")
    content_hash = models.CharField(max_length=64, help_text="SHA-256 of everything it says.")
    status = models.CharField(max_length=20, choices=OutboundStatus, default=OutboundStatus.QUEUED)
    error = models.TextField(blank=True, default="")
    releases = models.PositiveSmallIntegerField(
        default=0, help_text="How often it was let go: each has a job of its own."
    )
    send_after = models.DateTimeField(
        null=True, blank=True, help_text="It can be canceled until then, without a trace in Gmail."
    )
    database_id = models.CharField(
        max_length=100,
        blank=True,
        default="",
        help_text="The database it was let go in; in a restored one a person has to say yes again.",
    )
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that sends it.")
    gmail_draft_id = models.CharField(
        max_length=MAX_GMAIL_ID_LENGTH,
        blank=True,
        default="",
        help_text="The draft that Gmail sends, and sends once.",
    )
    gmail_draft_message_id = models.CharField(
        max_length=MAX_GMAIL_ID_LENGTH,
        blank=True,
        default="",
        db_default="",
        help_text="The draft's message: an edit in Gmail gives it another id.",
    )
    history_id = models.BigIntegerField(
        null=True, blank=True, help_text="The mailbox's history id before it was sent."
    )
    missing_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when its draft is gone and nothing sent was found."
    )
    in_doubt = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Nobody could tell whether it was sent when a person had it sent anew.",
    )
    gmail_message_id = models.CharField(max_length=MAX_GMAIL_ID_LENGTH, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    started_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "outbound message"
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "action"],
                condition=models.Q(action__isnull=False),
                name="outbound_of_action_once",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=OutboundStatus.values, kind__in=OutboundKind.values),
                name="outbound_state_known",
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "message", "created_at"], name="outbound_of_message"),
            models.Index(fields=["firm", "status", "id"], name="outbound_state"),
            models.Index(fields=["firm", "id"], name="outbound_newest"),
            models.Index(
                fields=["firm", "account", "auto_reply_to", "created_at"],
                condition=~models.Q(auto_reply_to=""),
                name="outbound_auto_replies",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} ({self.get_status_display()})"

    @property
    def may_be_sent(self) -> bool:
        """Whether Gmail may have sent it already, by its current draft or an earlier one."""
        return bool(self.gmail_draft_id) or self.in_doubt

    @property
    def recipients(self) -> list[str]:
        """The addresses of all its recipients."""
        return _values("address", self.to, self.cc, self.bcc)

    @property
    def filenames(self) -> list[str]:
        """The names of its attachments."""
        return _values("filename", self.attachments)


def _values(name: str, *columns: Any) -> list[str]:
    # The columns are not trusted, because pages must show rows of any content.
    rows = [row for column in columns for row in column if isinstance(row, dict)]
    return [str(row.get(name, "")) for row in rows]
