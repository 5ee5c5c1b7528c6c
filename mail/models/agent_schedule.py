"""The timetables by which agents work."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from mail.models.account import MailAccount
from mail.models.agent import AgentProfile
from mail.models.recurring import RecurringRow, one_timetable

MAX_NAME_LENGTH = 100
MAX_PROMPT_LENGTH = 4000
MAX_STOPPED_LENGTH = 100


class AgentSchedule(RecurringRow):
    """A timetable by which an agent works in a mailbox, and what it is asked each time."""

    account = models.ForeignKey(
        MailAccount, on_delete=models.CASCADE, db_index=False, related_name="agent_schedules"
    )
    profile = models.ForeignKey(
        AgentProfile, on_delete=models.CASCADE, db_index=False, related_name="schedules"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="+",
        help_text="On whose behalf it runs; it stops when they leave. Empty: the firm.",
    )
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    prompt = models.TextField(help_text="What the agent is asked each time.")
    enabled = models.BooleanField(default=True)
    stopped = models.CharField(
        max_length=MAX_STOPPED_LENGTH,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Why it was switched off by itself; empty where it was not.",
    )
    ran_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When its agent last ran to the end."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "agent schedule"
        constraints = [
            models.UniqueConstraint(fields=["firm", "name"], name="agent_schedule_name_once"),
            one_timetable("agent_schedule_one_timetable"),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                name="agent_schedule_due",
                condition=Q(due_at__isnull=False, enabled=True),
            ),
        ]

    def __str__(self) -> str:
        return self.name
