"""Attachments whose text is extracted, so that search finds it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.documents.kinds import Unread
from mail.models.account import MailAccount
from mail.models.message import Attachment, Message
from tenants.models import TenantModel

MAX_DETECTED_LENGTH = 20
MAX_MALWARE_LENGTH = 200
SHA256_LENGTH = 64


class DocumentStatus(models.TextChoices):
    """The last step done with a document."""

    WAITING = "waiting", "Waiting to be fetched"
    FETCHED = "fetched", "Fetched"
    SCANNED = "scanned", "Scanned"
    READ = "read", "Read"
    UNREADABLE = "unreadable", "Unreadable"
    INFECTED = "infected", "Infected"
    SKIPPED = "skipped", "Left alone"


class ScanResult(models.TextChoices):
    """What the malware scanner said."""

    PENDING = "", "Not yet scanned"
    CLEAN = "clean", "Clean"
    INFECTED = "infected", "Infected"
    NOT_SCANNED = "not_scanned", "Not scanned: there is no scanner"


REASONS: dict[Unread, str] = {
    Unread.SWITCHED_OFF: "Attachments are not read here",
    Unread.TOO_LARGE: "It is too large",
    Unread.GONE: "It is no longer in Gmail",
    Unread.INFECTED: "It is infected",
    Unread.NOT_SCANNABLE: "The malware scanner does not accept it",
    Unread.WRONG_TYPE: "Its content does not match its name",
    Unread.ENCRYPTED: "It is encrypted",
    Unread.MACROS: "It contains macros",
    Unread.DAMAGED: "It is damaged",
    Unread.UNPACKS_TOO_LARGE: "It is too large once unpacked",
    Unread.MEMORY: "Reading it takes too much memory",
    Unread.TIME: "Reading it takes too long",
    Unread.DIED: "Reading it crashed the process that read it",
    Unread.NO_TEXT: "It has no text",
    Unread.CUT: "Only its beginning was read",
    Unread.ERASED: "It mentions a person who was erased",
    Unread.IMPORTED: "It was imported without its content",
    Unread.DISCONNECTED: "Its mailbox was disconnected or switched off before it was read",
}


class Document(TenantModel):
    """One attachment that is read. Its bytes are stored only from the fetching to the reading."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    message = models.ForeignKey(
        Message, on_delete=models.CASCADE, db_index=False, related_name="documents"
    )
    attachment = models.ForeignKey(
        Attachment, on_delete=models.CASCADE, db_index=False, related_name="documents"
    )
    status = models.CharField(max_length=10, choices=DocumentStatus, default=DocumentStatus.WAITING)
    reason = models.CharField(
        max_length=20,
        choices=[("", ""), *((one.value, text) for one, text in REASONS.items())],
        blank=True,
        default="",
        help_text="Why it was not read, or not whole.",
    )
    scan = models.CharField(
        max_length=15, choices=ScanResult, blank=True, default=ScanResult.PENDING
    )
    malware = models.CharField(
        max_length=MAX_MALWARE_LENGTH, blank=True, default="", help_text="What the scanner found."
    )
    detected_type = models.CharField(
        max_length=MAX_DETECTED_LENGTH, blank=True, default="", help_text="By its content."
    )
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes that were fetched.")
    sha256 = models.CharField(max_length=SHA256_LENGTH, blank=True, default="")
    content = models.BinaryField(
        null=True, blank=True, help_text="Dropped as soon as it was read, or cannot be."
    )
    text = models.TextField(blank=True, default="", help_text="What it says.")
    job_id = models.UUIDField(
        null=True, blank=True, help_text="The job of the next step, or the last."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    fetched_at = models.DateTimeField(null=True, blank=True)
    scanned_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When the last step was done.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attachment", "firm"], name="document_once"),
            models.CheckConstraint(
                condition=models.Q(status__in=DocumentStatus.values, scan__in=ScanResult.values),
                name="document_known",
            ),
        ]
        indexes = [
            models.Index(fields=["message", "firm"], name="document_of_message"),
            models.Index(fields=["firm", "id"], name="document_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.get_status_display()} {self.detected_type}".strip()
