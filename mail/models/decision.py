"""What was decided about a message, by whom, and why."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MailAccount
from mail.models.message import Message
from mail.models.thread import CATEGORY_CHOICES
from tenants.models import TenantModel


class DecisionSource(models.TextChoices):
    """Who decided."""

    OFFLINE = "offline", "Offline classifier"
    RULE = "rule", "Rule"
    MODEL = "model", "Language model"
    PERSON = "person", "The person"


class Decision(TenantModel):
    """One verdict on one message; a later verdict is a new row."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="decisions"
    )
    message = models.ForeignKey(
        Message, on_delete=models.CASCADE, db_index=False, related_name="decisions"
    )
    source = models.CharField(max_length=10, choices=DecisionSource)
    category = models.CharField(max_length=20, choices=CATEGORY_CHOICES)
    confidence = models.FloatField(help_text="From 0 to 1.")
    rationale = models.TextField(blank=True, default="")
    explanations = models.JSONField(
        default=dict, help_text="{salient_features, language, style, automated, rules, actions}"
    )
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that decided.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(confidence__gte=0, confidence__lte=1),
                name="decision_confidence_range",
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "message", "created_at"], name="decision_of_message"),
            models.Index(fields=["firm", "id"], name="decision_newest"),
            # Every message looks up what the owner decided before, which is a small part of all
            # rows.
            models.Index(
                fields=["firm", "account", "id"],
                name="decision_of_person",
                condition=models.Q(source=DecisionSource.PERSON),
            ),
        ]

    @property
    def labelled(self) -> bool:
        """Whether the decision is sure enough for its category to be shown."""
        return bool(self.explanations.get("labelled", True))

    def __str__(self) -> str:
        return f"{self.get_category_display()} ({self.confidence:.0%})"
