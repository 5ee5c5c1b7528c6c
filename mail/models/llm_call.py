"""Each call of a language model: usage, cost and error, without the question and the answer."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MailAccount
from mail.models.message import Message
from tenants.models import TenantModel


class CallType(models.TextChoices):
    """What a model is asked for."""

    CLASSIFY = "classify", "Classify"
    DRAFT = "draft", "Draft"
    REWORK = "rework", "Rework"
    CONTEXT = "context", "Find context"
    AGENT = "agent", "Agent"


class LLMCall(TenantModel):
    """One call."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="llm_calls"
    )
    message = models.ForeignKey(
        Message,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="llm_calls",
    )
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that asked.")
    call_type = models.CharField(max_length=10, choices=CallType)
    provider = models.CharField(max_length=20)
    model = models.CharField(max_length=100)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    cost_microdollars = models.PositiveBigIntegerField(
        default=0, help_text="By LLM_PRICES; 0 where they are not set."
    )
    latency_ms = models.PositiveIntegerField(default=0)
    error = models.CharField(
        max_length=20, blank=True, default="", help_text="Its code; empty: it was answered."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "model call"
        indexes = [
            models.Index(fields=["firm", "created_at"], name="llm_call_recent"),
            models.Index(fields=["firm", "message"], name="llm_call_of_message"),
        ]

    def __str__(self) -> str:
        return f"{self.get_call_type_display()} by {self.model}"
