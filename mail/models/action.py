"""What Mailroom does to a message: asked for, running, done, and how to take it back."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from mail.models.account import MailAccount
from mail.models.decision import Decision
from mail.models.message import Message
from mail.models.rule import Rule
from tenants.models import TenantModel


class ActionType(models.TextChoices):
    """What can be done to a message."""

    ARCHIVE = "archive", "Archive"
    APPLY_LABEL = "apply_label", "Apply label"
    REMOVE_LABEL = "remove_label", "Remove label"
    MARK_READ = "mark_read", "Mark read"
    MARK_UNREAD = "mark_unread", "Mark unread"
    STAR = "star", "Star"
    UNSTAR = "unstar", "Unstar"
    TRASH = "trash", "Trash"
    RESTORE = "restore", "Restore from trash"


class ActionStatus(models.TextChoices):
    """Where an action is in its life."""

    QUEUED = "queued", "Queued"
    EXECUTING = "executing", "Executing"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELED = "canceled", "Canceled"
    REJECTED = "rejected", "Rejected"
    APPROVED_PENDING = "approved_pending", "Waiting for approval"


UNFINISHED = (ActionStatus.QUEUED, ActionStatus.EXECUTING)


class Action(TenantModel):
    """One change to one message in Gmail."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="actions"
    )
    message = models.ForeignKey(
        Message, on_delete=models.CASCADE, db_index=False, related_name="actions"
    )
    decision = models.ForeignKey(
        Decision,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="actions",
    )
    rule = models.ForeignKey(
        Rule,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        db_index=False,
        related_name="+",
        help_text="The rule that asked for it.",
    )
    action_type = models.CharField(max_length=20, choices=ActionType)
    parameters = models.JSONField(
        default=dict, blank=True, help_text='{"label": name or id} for the label actions.'
    )
    status = models.CharField(max_length=20, choices=ActionStatus, default=ActionStatus.QUEUED)
    error = models.TextField(blank=True, default="")
    pre_image = models.JSONField(
        null=True, blank=True, help_text="{labels}: the message's label ids just before."
    )
    undo_hint = models.JSONField(
        null=True,
        blank=True,
        help_text="What taking it back must change; see mail/services/label_changes.py.",
    )
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that owns the execution.")
    executed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=ActionStatus.values), name="action_status_known"
            ),
            models.CheckConstraint(
                condition=models.Q(action_type__in=ActionType.values), name="action_type_known"
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "message", "created_at"], name="action_of_message"),
            models.Index(fields=["firm", "status", "id"], name="action_state"),
            models.Index(fields=["firm", "id"], name="action_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.get_action_type_display()} ({self.get_status_display()})"
