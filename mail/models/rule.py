"""Rules that decide about mail before any classifier is asked."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from mail.models.account import MAX_ADDRESS_LENGTH, MailAccount
from mail.models.thread import CATEGORY_CHOICES
from tenants.models import TenantModel


class RuleScope(models.TextChoices):
    """Whose mail a rule is about."""

    GLOBAL = "global", "All mail of the firm"
    ACCOUNT = "account", "All mail of one mailbox"
    DOMAIN = "domain", "Mail from one domain"
    SENDER = "sender", "Mail from one sender"


class SafeMode(models.TextChoices):
    """Which checks a rule's actions are spared."""

    DEFAULT = "default", "None"
    ALWAYS_SAFE = "always_safe", "That of confidence"
    DANGEROUS_OVERRIDE = "dangerous_override", "That of danger, too"


class Rule(TenantModel):
    """Conditions, and what is decided and done where they hold."""

    account = models.ForeignKey(
        MailAccount,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="rules",
        help_text="Empty: every mailbox of the firm.",
    )
    name = models.CharField(max_length=100)
    scope = models.CharField(max_length=10, choices=RuleScope, default=RuleScope.GLOBAL)
    scope_ref = models.CharField(
        max_length=MAX_ADDRESS_LENGTH,
        blank=True,
        default="",
        help_text="The domain or the sender's address, in lower case.",
    )
    priority = models.PositiveIntegerField(default=100, help_text="Lower goes first.")
    enabled = models.BooleanField(default=False)
    disabled_reason = models.TextField(
        blank=True, default="", help_text="Why Mailroom switched it off; empty: it did not."
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
    tried_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was tried as it is; empty after each change."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["firm", "name"], name="rule_name_once"),
            models.CheckConstraint(
                condition=Q(scope=RuleScope.GLOBAL, account=None, scope_ref="")
                | Q(scope=RuleScope.ACCOUNT, account__isnull=False, scope_ref="")
                | (Q(scope__in=[RuleScope.DOMAIN, RuleScope.SENDER]) & ~Q(scope_ref="")),
                name="rule_scope_named",
            ),
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
