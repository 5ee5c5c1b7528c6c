"""Enqueues reminders that are due, one job for each date."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from jobs.queue import EnqueueSpec
from mail.models import Reminder, ReminderStatus
from mail.services.dates import enqueue_due_rows
from tenants.models import Firm, Membership

DELIVERY_TYPE = "reminder_delivery"


def enqueue_due_reminders(checkpoint: Callable[[], None], firm: Firm | None = None) -> int:
    """Enqueue the reminders that are due, as `enqueue_due_rows` does; return how many jobs.

    Reminders of people who are inactive, or who left the firm, wait until they are back.
    """
    return enqueue_due_rows(_due, _specs, checkpoint=checkpoint, firm=firm)


def _due(now: datetime) -> QuerySet[Reminder]:
    member = Membership.objects.filter(user_id=OuterRef("user_id"), firm_id=OuterRef("firm_id"))
    found: QuerySet[Reminder] = Reminder.objects.filter(
        Exists(member), due_at__lte=now, status=ReminderStatus.ACTIVE, user__is_active=True
    )
    return found


def _specs(reminder: Reminder, due_at: datetime) -> list[EnqueueSpec]:
    payload: dict[str, Any] = {
        "reminder_id": reminder.pk,
        "user_id": reminder.user_id,
        "due_at": due_at.astimezone(UTC).isoformat(),
    }
    return [EnqueueSpec(DELIVERY_TYPE, payload, user=reminder.user)]
