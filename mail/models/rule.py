"""Rules that decide about mail before any classifier is asked."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from mail.models.scoped import ScopedRow, scope_constraint
from mail.models.thread import CATEGORY_CHOICES


class SafeMode(models.TextChoices):
    """Which safety checks a rule's actions skip."""

    DEFAULT = "default", "None"
    ALWAYS_SAFE = "always_safe", "The confidence check"
    DANGEROUS_OVERRIDE = "dangerous_override", "The confidence and danger checks"


class Rule(ScopedRow):
    """Conditions, and the category and actions that follow where they hold."""

    name = models.CharField(max_length=100)
    priority = models.PositiveIntegerField(
        default=100, help_text="Lower numbers are checked first."
    )
    enabled = models.BooleanField(default=False)
    disabled_reason = models.TextField(
        blank=True, default="", help_text="Why Mailroom switched it off; empty: it did not."
    )
    enabled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="Who enabled it last: in a private mailbox it does no more than they may read.",
    )
    conditions = models.JSONField(help_text="The tree; see mail/rules/conditions.py.")
    category = models.CharField(
        max_length=20,
        choices=CATEGORY_CHOICES,
        blank=True,
        default="",
        help_text="Empty: the classifier decides.",
    )
    actions = models.JSONField(
        default=list, blank=True, help_text="[{action, parameters}], done in this order."
    )
    safe_mode = models.CharField(max_length=20, choices=SafeMode, default=SafeMode.DEFAULT)
    corrections = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="For so many corrections by the person Mailroom proposed it; 0: it is somebody's.",
    )
    tried_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was tried as it is; empty after each change."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "name"], name="rule_name_once"),
            scope_constraint("rule_scope_named"),
            models.CheckConstraint(
                condition=Q(safe_mode__in=SafeMode.values), name="rule_safe_mode_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["firm", "priority"], condition=Q(enabled=True), name="rule_enabled"
            ),
        ]

    def __str__(self) -> str:
        return self.name
