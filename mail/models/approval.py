"""The approval that a dangerous action or message needs, valid only for exactly what was asked."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MailAccount
from mail.models.action import Action
from mail.models.message import Message
from mail.models.outbound import OutboundMessage
from tenants.models import TenantModel


class ApprovalStatus(models.TextChoices):
    """What became of the question."""

    PENDING = "pending", "Waiting"
    APPROVED = "approved", "Approved"
    REJECTED = "rejected", "Rejected"
    EXPIRED = "expired", "Expired"
    CANCELED = "canceled", "Canceled"


class Approval(TenantModel):
    """One question about an action or an outbound message; it is decided once."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="approvals"
    )
    message = models.ForeignKey(
        Message,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="approvals",
    )
    action = models.ForeignKey(
        Action,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="approvals",
    )
    outbound = models.ForeignKey(
        OutboundMessage,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="approvals",
    )
    reasons: models.JSONField[Any, Any] = models.JSONField(
        default=list, blank=True, help_text="The checks of mail/rules/safety.py that asked."
    )
    content_hash = models.CharField(max_length=64, help_text="SHA-256 of exactly what is asked.")
    status = models.CharField(max_length=10, choices=ApprovalStatus, default=ApprovalStatus.PENDING)
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=200, blank=True, default="")
    decided_via = models.CharField(max_length=20, blank=True, default="")
    notified_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=ApprovalStatus.values), name="approval_status_known"
            ),
            models.CheckConstraint(
                condition=models.Q(action__isnull=False) | models.Q(outbound__isnull=False),
                name="approval_of_something",
            ),
        ]
        indexes = [
            # By these the database finds the rows that refer to one that is deleted.
            models.Index(
                fields=["action"],
                condition=models.Q(action__isnull=False),
                name="approval_of_action",
            ),
            models.Index(
                fields=["outbound"],
                condition=models.Q(outbound__isnull=False),
                name="approval_of_outbound",
            ),
            models.Index(fields=["firm", "status", "id"], name="approval_state"),
            models.Index(fields=["firm", "id"], name="approval_newest"),
            models.Index(fields=["firm", "message", "created_at"], name="approval_of_message"),
            models.Index(
                fields=["expires_at"],
                condition=models.Q(status="pending"),
                name="approval_expiry",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} ({self.get_status_display()})"

    @property
    def subject(self) -> str:
        """The kind of action or message that is asked about, without mail text."""
        if self.action is not None:
            return str(self.action.get_action_type_display())
        return "" if self.outbound is None else str(self.outbound.get_kind_display())

    @property
    def outcome(self) -> str:
        """The state and error of what was approved, without mail text; empty if nothing was."""
        approved = self.outbound or self.action
        if approved is None or self.status != ApprovalStatus.APPROVED:
            return ""
        state = str(approved.get_status_display())
        return f"{state}: {approved.error}" if approved.error else state
