"""The actions on messages: their state, and what undoes them."""

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
    DELETE = "delete", "Delete"
    SNOOZE = "snooze", "Snooze"
    FORWARD = "forward", "Forward"
    AUTO_REPLY = "auto_reply", "Reply automatically"
    UNDO = "undo", "Undo"


class ActionStatus(models.TextChoices):
    """The state of an action."""

    QUEUED = "queued", "Queued"
    EXECUTING = "executing", "Executing"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELED = "canceled", "Canceled"
    REJECTED = "rejected", "Rejected"
    APPROVED_PENDING = "approved_pending", "Waiting for approval"


UNFINISHED = (ActionStatus.QUEUED, ActionStatus.EXECUTING)


class Action(TenantModel):
    """One change to one message in Gmail; an undo is an action, too."""

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
        default=dict,
        blank=True,
        help_text="As mail/services/actions/types.py declares them.",
    )
    status = models.CharField(max_length=20, choices=ActionStatus, default=ActionStatus.QUEUED)
    error = models.TextField(blank=True, default="")
    pre_image = models.JSONField(
        null=True, blank=True, help_text="{labels}: the message's label ids just before."
    )
    undo_hint = models.JSONField(
        null=True,
        blank=True,
        help_text="What taking it back must change; see mail/services/actions/label_changes.py.",
    )
    job_id = models.UUIDField(null=True, blank=True, help_text="The job that executes it, or will.")
    executed_at = models.DateTimeField(null=True, blank=True)
    wake_at = models.DateTimeField(
        null=True, blank=True, help_text="When a snoozed message comes back; empty once it has."
    )
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
            # By these the database finds the rows that refer to one that is deleted.
            models.Index(
                fields=["decision"],
                condition=models.Q(decision__isnull=False),
                name="action_of_decision",
            ),
            models.Index(
                fields=["rule", "created_at"],
                condition=models.Q(rule__isnull=False),
                name="action_of_rule",
            ),
            models.Index(fields=["firm", "message", "created_at"], name="action_of_message"),
            models.Index(fields=["firm", "status", "id"], name="action_state"),
            models.Index(fields=["firm", "id"], name="action_newest"),
            models.Index(
                fields=["id"],
                condition=models.Q(status__in=["queued", "executing"]),
                name="action_unfinished",
            ),
            models.Index(
                fields=["wake_at"], condition=models.Q(wake_at__isnull=False), name="action_wakes"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_action_type_display()} ({self.get_status_display()})"


class Relation(models.TextChoices):
    """How one action relates to another."""

    UNDO_OF = "undo_of", "Undo of"
    APPROVAL_FOR = "approval_for", "Approval for"
    SPAWNED = "spawned", "Spawned"
    RELATED = "related", "Related"


class ActionLink(TenantModel):
    """`cause` has this `relation` to `effect`, for instance that of its undo."""

    cause = models.ForeignKey(
        Action, on_delete=models.CASCADE, db_index=False, related_name="links_as_cause"
    )
    effect = models.ForeignKey(
        Action, on_delete=models.CASCADE, db_index=False, related_name="links_as_effect"
    )
    relation = models.CharField(max_length=20, choices=Relation)
    counts = models.BooleanField(
        default=True, db_default=True, help_text="False for an undo that failed."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "action link"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(relation__in=Relation.values), name="action_link_relation_known"
            ),
            models.UniqueConstraint(
                fields=["firm", "effect"],
                condition=models.Q(relation="undo_of", counts=True),
                name="action_link_one_undo",
            ),
        ]
        indexes = [
            models.Index(fields=["firm", "effect"], name="action_link_effect"),
            models.Index(fields=["firm", "cause"], name="action_link_cause"),
        ]

    def __str__(self) -> str:
        return f"{self.get_relation_display()} {self.effect_id}"
