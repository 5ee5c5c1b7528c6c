"""The answers Mailroom drafts: each version, what it says, and what became of it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MailAccount
from mail.models.llm_call import LLMCall
from mail.models.message import Message
from mail.models.thread import MAX_GMAIL_ID_LENGTH, MailThread
from tenants.models import TenantModel

MAX_INSTRUCTION_LENGTH = 4000


class DraftStatus(models.TextChoices):
    """The state of a draft."""

    WRITING = "writing", "Being written to Gmail"
    READY = "ready", "In Gmail"
    SENT = "sent", "Sent"
    DISCARDED = "discarded", "Discarded by the person"
    REPLACED = "replaced", "Replaced by its rework"
    WITHDRAWN = "withdrawn", "Withdrawn by Mailroom"
    KEPT = "kept", "Left to the person, who edited it"
    CANCELED = "canceled", "Never written to Gmail"


class DraftSource(models.TextChoices):
    """Who wrote a draft's text."""

    MODEL = "model", "Language model"
    TEMPLATE = "template", "Reply template"
    ERROR = "error", "Nobody: the model failed"


class DraftOrigin(models.TextChoices):
    """What asked for a draft."""

    AUTOMATIC = "automatic", "A decision"
    MANUAL = "manual", "The person"
    REWORK = "rework", "Rework"


class Draft(TenantModel):
    """One version of an answer; a rework is a row of its own."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="drafts"
    )
    thread = models.ForeignKey(
        MailThread, on_delete=models.CASCADE, db_index=False, related_name="drafts"
    )
    message = models.ForeignKey(
        Message,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="drafts",
        help_text="What it answers.",
    )
    replaces = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="The version that this one reworks.",
    )
    llm_call = models.ForeignKey(
        LLMCall,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="The model call that wrote it.",
    )
    status = models.CharField(max_length=10, choices=DraftStatus, default=DraftStatus.WRITING)
    origin = models.CharField(max_length=10, choices=DraftOrigin)
    source = models.CharField(max_length=10, choices=DraftSource)
    template_name = models.CharField(
        max_length=100, blank=True, default="", help_text="Of the reply template, if one wrote it."
    )
    style = models.CharField(max_length=50, blank=True, default="")
    language = models.CharField(max_length=10, blank=True, default="")
    rework_count = models.PositiveSmallIntegerField(default=0)
    instruction = models.TextField(
        blank=True, default="", help_text="What the person asked of this version."
    )
    next_instruction = models.TextField(
        blank=True, default="", help_text="What the person asks of the next one, outside Gmail."
    )
    related = models.PositiveSmallIntegerField(
        default=0, help_text="How many related conversations the model was shown."
    )
    to: models.JSONField[list[dict[str, str]], list[dict[str, str]]] = models.JSONField(
        default=list, help_text="[{name, address}]"
    )
    subject = models.TextField(blank=True, default="")
    text = models.TextField(help_text="As it was written to Gmail, below the marker.")
    content_hash = models.CharField(
        max_length=64, help_text="SHA-256 of what Gmail holds as long as nobody edits it."
    )
    rfc822_id = models.TextField(help_text="Its Message-ID, made from its id.")
    gmail_draft_id = models.CharField(max_length=MAX_GMAIL_ID_LENGTH, blank=True, default="")
    gmail_message_id = models.CharField(
        max_length=MAX_GMAIL_ID_LENGTH,
        blank=True,
        default="",
        help_text="Of the draft's message when it was last seen; each edit gives it another.",
    )
    edited = models.BooleanField(default=False, help_text="The person has changed it since.")
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that made it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    written_at = models.DateTimeField(null=True, blank=True, help_text="When Gmail had it.")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(
                    status__in=DraftStatus.values,
                    source__in=DraftSource.values,
                    origin__in=DraftOrigin.values,
                ),
                name="draft_state_known",
            ),
            models.UniqueConstraint(
                fields=["firm", "thread"],
                condition=models.Q(status="ready"),
                name="draft_ready_once",
            ),
        ]
        indexes = [
            # By these the database finds the rows that refer to one that is deleted.
            models.Index(
                fields=["llm_call"],
                condition=models.Q(llm_call__isnull=False),
                name="draft_of_llm_call",
            ),
            models.Index(
                fields=["replaces"],
                condition=models.Q(replaces__isnull=False),
                name="draft_replaces",
            ),
            models.Index(fields=["firm", "thread", "id"], name="draft_of_thread"),
            models.Index(fields=["firm", "message", "created_at"], name="draft_of_message"),
            models.Index(fields=["firm", "status", "id"], name="draft_state"),
            models.Index(fields=["firm", "id"], name="draft_newest"),
            models.Index(
                fields=["firm", "account", "gmail_message_id"],
                condition=models.Q(status="ready"),
                name="draft_in_gmail",
            ),
        ]

    def __str__(self) -> str:
        return f"Draft ({self.get_status_display()})"
