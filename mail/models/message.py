"""Messages as they were when fetched, their attachments by name and size, their search index."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MAX_ADDRESS_LENGTH, MailAccount
from mail.models.thread import MAX_GMAIL_ID_LENGTH, MailThread
from mail.text.parsed import TextSource
from tenants.models import TenantModel

MAX_CALENDAR_METHOD_LENGTH = 40
MAX_PART_ID_LENGTH = 100
MAX_MIME_TYPE_LENGTH = 255


class Message(TenantModel):
    """One message of a mailbox."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="messages"
    )
    thread = models.ForeignKey(
        MailThread, on_delete=models.CASCADE, db_index=False, related_name="messages"
    )
    gmail_message_id = models.CharField(max_length=MAX_GMAIL_ID_LENGTH)
    message_id = models.TextField(
        blank=True, default="", help_text="The Message-ID header, with its angle brackets."
    )
    outgoing = models.BooleanField(default=False, help_text="Written by the mailbox's owner.")
    sender_name = models.TextField(blank=True, default="")
    sender_address = models.CharField(max_length=MAX_ADDRESS_LENGTH, blank=True, default="")
    to = models.JSONField(default=list, blank=True, help_text="[{name, address}]")
    cc = models.JSONField(default=list, blank=True, help_text="[{name, address}]")
    subject = models.TextField(blank=True, default="")
    snippet = models.TextField(blank=True, default="")
    text = models.TextField(blank=True, default="", help_text="The readable text.")
    html = models.TextField(blank=True, default="", help_text="Untrusted: never shown as it is.")
    hidden_text = models.TextField(
        blank=True, default="", help_text="What the HTML hides from the reader."
    )
    text_source = models.CharField(
        max_length=10, choices=[(source.value, source.value) for source in TextSource]
    )
    calendar_method = models.CharField(
        max_length=MAX_CALENDAR_METHOD_LENGTH, blank=True, default=""
    )
    labels = models.JSONField(default=list, blank=True, help_text="Gmail label ids.")
    headers = models.JSONField(default=list, blank=True, help_text="[[name, value]], in order.")
    internal_date = models.DateTimeField(help_text="When Gmail received it.")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes, by Gmail's estimate.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "account", "gmail_message_id"], name="message_gmail_id_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["firm", "thread", "internal_date", "gmail_message_id"],
                name="message_in_thread",
            ),
            models.Index(fields=["firm", "-internal_date"], name="message_recent"),
            # The order of the list of whoever sees every firm.
            models.Index(fields=["-internal_date", "-id"], name="message_newest"),
            models.Index(fields=["firm", "sender_address"], name="message_sender"),
        ]

    def __str__(self) -> str:
        return self.gmail_message_id


class Attachment(TenantModel):
    """What a message carries besides its text; the bytes stay in Gmail."""

    message = models.ForeignKey(
        Message, on_delete=models.CASCADE, db_index=False, related_name="attachments"
    )
    part_id = models.CharField(max_length=MAX_PART_ID_LENGTH)
    filename = models.TextField(blank=True, default="", help_text="Untrusted: never a path.")
    mime_type = models.CharField(max_length=MAX_MIME_TYPE_LENGTH, blank=True, default="")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes.")
    gmail_attachment_id = models.TextField(
        blank=True, default="", help_text="Empty when Gmail sends the content with the message."
    )
    content_id = models.TextField(blank=True, default="")
    inline = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["firm", "message", "part_id"], name="attachment_part_once"
            ),
        ]

    def __str__(self) -> str:
        return self.filename or self.mime_type


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
