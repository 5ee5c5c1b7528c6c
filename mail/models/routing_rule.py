"""Which mail goes to the pipeline and which to an agent."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from mail.models.account import MailAccount
from tenants.models import TenantModel

MAX_PROFILE_LENGTH = 100


class Route(models.TextChoices):
    """What a message is handed to."""

    PIPELINE = "pipeline", "Pipeline"
    AGENT = "agent", "Agent"


class RoutingRule(TenantModel):
    """Conditions on a new message, and where it goes when they all hold; the first rule wins."""

    account = models.ForeignKey(
        MailAccount,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="routing_rules",
        help_text="Empty: every mailbox of the firm.",
    )
    name = models.CharField(max_length=100)
    position = models.PositiveIntegerField(
        default=100, help_text="Lower numbers are checked first."
    )
    match = models.JSONField(help_text="The conditions; see mail/rules/routing.py.")
    route = models.CharField(max_length=10, choices=Route)
    profile = models.CharField(
        max_length=MAX_PROFILE_LENGTH, blank=True, default="", help_text="Of the agent."
    )
    enabled = models.BooleanField(default=True)
    enabled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="Who enabled it as it is: what they may not read it does not look into.",
    )
    disabled_reason = models.TextField(
        blank=True, default="", help_text="Why Mailroom switched it off; empty: it did not."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "routing rule"
        constraints = [
            models.UniqueConstraint(fields=["firm", "name"], name="routing_rule_name_once"),
            models.CheckConstraint(
                condition=Q(route=Route.PIPELINE, profile="")
                | Q(Q(route=Route.AGENT) & ~Q(profile="")),
                name="routing_rule_profile_of_agent",
            ),
        ]
        indexes = [
            models.Index(
                fields=["firm", "position"], condition=Q(enabled=True), name="routing_rule_enabled"
            ),
        ]

    def __str__(self) -> str:
        return self.name
