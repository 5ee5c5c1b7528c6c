"""People's reminders, and how each person wants to be notified."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.registry.timetable import Timetable
from mail.models.message import Message
from mail.models.recurring import MAX_ZONE_LENGTH, DatedRow, RecurringRow, one_timetable
from tenants.encryption import EncryptedTextField

MAX_TITLE_LENGTH = 200
MAX_BODY_LENGTH = 2000


class ReminderStatus(models.TextChoices):
    """Whether a reminder is still to be delivered."""

    ACTIVE = "active", "Active"
    DELIVERED = "delivered", "Delivered"
    CANCELED = "canceled", "Canceled"
    WITHDRAWN = "withdrawn", "Withdrawn"


class Reminder(RecurringRow):
    """A note that reaches its person when it is due: once, or again and again.

    For a message that nobody answered Mailroom creates one itself: a follow-up reminder.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="+",
        help_text="Who is reminded, and the only one to read it.",
    )
    message = models.ForeignKey(
        Message,
        null=True,
        blank=True,
        editable=False,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="+",
        help_text="What nobody answered; empty: the reminder is its person's own.",
    )
    title = models.CharField(max_length=MAX_TITLE_LENGTH)
    body = models.TextField(blank=True, default="")
    status = models.CharField(max_length=10, choices=ReminderStatus, default=ReminderStatus.ACTIVE)
    planned_at = models.DateTimeField(
        editable=False,
        help_text="When its dates were set: earlier ones are not delivered any more.",
    )
    delivered_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When it was last delivered."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "reminder"
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=ReminderStatus.values), name="reminder_status_known"
            ),
            one_timetable("reminder_one_timetable"),
            models.UniqueConstraint(
                fields=["firm", "message"],
                condition=Q(message__isnull=False),
                name="reminder_of_message_once",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="reminder_due", condition=Q(due_at__isnull=False)),
            models.Index(fields=["firm", "user", "id"], name="reminder_of_user"),
        ]

    def __str__(self) -> str:
        # Without the title, which only the reminder's person may read.
        return f"Reminder ({self.get_status_display().lower()})"


class NotificationPreference(DatedRow):
    """How a person wants to be notified by a firm's Mailroom; without one: by e-mail, at any time.

    Its due date is that of the next daily digest.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    time_zone = models.CharField(max_length=MAX_ZONE_LENGTH, default="UTC")
    quiet_from = models.TimeField(
        null=True, blank=True, help_text="From this time of day on nothing is delivered."
    )
    quiet_until = models.TimeField(
        null=True, blank=True, help_text="At this time of day whatever waited is delivered."
    )
    email = models.BooleanField(default=True, help_text="To the address of the account.")
    discord_webhook = EncryptedTextField(
        default="", blank=True, help_text="A Discord webhook's URL, encrypted; empty: none."
    )
    digest_at = models.TimeField(
        null=True,
        blank=True,
        help_text="The time of day at which a digest of the person's mailboxes comes; empty: none.",
    )
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "notification preference"
        constraints = [
            models.UniqueConstraint(fields=["firm", "user"], name="notification_preference_once"),
            models.CheckConstraint(
                condition=Q(quiet_from=None, quiet_until=None)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="quiet_hours_whole",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="digest_due", condition=Q(due_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"Notifications of {self.user}"

    @property
    def timetable(self) -> Timetable | None:
        """The daily timetable of the digests; None if there are none."""
        if self.digest_at is None:
            return None
        cron = f"{self.digest_at.minute} {self.digest_at.hour} * * *"
        return Timetable(cron, None, self.time_zone)
