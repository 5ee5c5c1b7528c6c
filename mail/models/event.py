"""Events in the life of mail, in order; rows are only ever added."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH
from mail.errors import AppendOnly
from mail.models.account import MailAccount
from mail.models.message import Message
from mail.models.thread import MailThread
from tenants.models import TenantModel


class EventType(models.TextChoices):
    """The kinds of events."""

    CONNECTED = "connected", "Connected"
    DISCONNECTED = "disconnected", "Disconnected"
    MODE_CHANGED = "mode_changed", "Mode changed"
    NEEDS_REAUTH = "needs_reauth", "Needs to be connected again"
    HISTORY_EXPIRED = "history_expired", "History expired"
    WATCH_FAILED = "watch_failed", "Watch not renewed"
    LABEL_DELETED = "label_deleted", "Label deleted in Gmail"
    ROUTED = "routed", "Routed"
    INGESTED = "ingested", "Ingested"
    AGENT_FINISHED = "agent_finished", "Agent finished"
    AGENT_ESCALATED = "agent_escalated", "Agent asks for a person"
    CLASSIFIED = "classified", "Classified"
    RULE_PROPOSED = "rule_proposed", "Rule proposed"
    ACTION_COMPLETED = "action_completed", "Action completed"
    ACTION_FAILED = "action_failed", "Action failed"
    SENT = "sent", "Sent"
    SEND_FAILED = "send_failed", "Not sent"
    SEND_UNKNOWN = "send_unknown", "Perhaps sent"
    APPROVAL_ASKED = "approval_asked", "Approval asked for"
    APPROVED = "approved", "Approved"
    REJECTED = "rejected", "Rejected"
    APPROVAL_EXPIRED = "approval_expired", "Approval expired"
    UNDO_REQUESTED = "undo_requested", "Undo requested"
    ACTION_UNDONE = "action_undone", "Action undone"
    UNSNOOZED = "unsnoozed", "Back from snooze"
    DRAFT_CREATED = "draft_created", "Draft created"
    DRAFT_REWORKED = "draft_reworked", "Draft reworked"
    DRAFT_KEPT = "draft_kept", "Edited draft left alone"
    DRAFT_WITHDRAWN = "draft_withdrawn", "Draft withdrawn"
    DRAFT_DISCARDED = "draft_discarded", "Draft discarded"
    DRAFT_REFUSED = "draft_refused", "Not drafted"
    REWORK_LIMIT = "rework_limit_reached", "Rework limit reached"
    SENT_DETECTED = "sent_detected", "Draft sent by the person"
    ARCHIVED = "archived", "Marked done"
    WAITING_RETRIAGED = "waiting_retriaged", "Answer came: judged again"
    FOLLOW_UP = "follow_up", "Nobody answered: reminder made"
    FOLLOW_UP_WITHDRAWN = "follow_up_withdrawn", "Reminder withdrawn"


class MailEvent(TenantModel):
    """One event; `detail` holds ids and words of Mailroom's, never mail text."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="events"
    )
    thread = models.ForeignKey(
        MailThread,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="events",
    )
    message = models.ForeignKey(
        Message,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="events",
    )
    event_type = models.CharField(max_length=30, choices=EventType)
    detail = models.JSONField(default=dict, blank=True)
    correlation_id = models.CharField(max_length=MAX_CORRELATION_ID_LENGTH, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "event"
        indexes = [
            models.Index(fields=["firm", "thread", "created_at"], name="event_of_thread"),
            models.Index(fields=["firm", "message", "created_at"], name="event_of_message"),
            models.Index(fields=["firm", "id"], name="event_newest"),
            models.Index(fields=["firm", "correlation_id"], name="event_correlation"),
        ]

    def __str__(self) -> str:
        return self.get_event_type_display()

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Add the event.

        Raises:
            AppendOnly: the event is stored already.
        """
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **kwargs)

    def delete(self, *_: Any, **__: Any) -> tuple[int, dict[str, int]]:
        """Refuse, because an event is deleted only with its mailbox.

        Raises:
            AppendOnly: always.
        """
        raise AppendOnly
