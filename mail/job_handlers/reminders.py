"""`reminders.enqueue_due` puts due reminders into the queue, `reminder_delivery` delivers one.

`follow_ups.find` creates reminders of messages that nobody answered.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import AwareDatetime

from jobs.execution.context import JobContext
from jobs.registry import JobPayload, job
from jobs.registry.system_payload import SystemPayload
from jobs.retry import RetryPolicy
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.conf import reminders_interval_seconds
from mail.services.reminders.delivery import DELIVERY_TYPE, deliver_reminder, enqueue_due_reminders
from mail.services.reminders.find_follow_ups import find_follow_ups

ENQUEUE_TYPE = "reminders.enqueue_due"
FIND_TYPE = "follow_ups.find"
FIND_SECONDS = 3600


class ReminderPayload(JobPayload):
    """A reminder and its person by their ids, and the date that is delivered."""

    reminder_id: UUID
    user_id: int
    due_at: AwareDatetime | None = None


def _key(payload: ReminderPayload) -> str:
    return f"{DELIVERY_TYPE}:{payload.reminder_id}:{_stamp(payload.due_at)}"


def _stamp(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"


@job(
    DELIVERY_TYPE,
    category=Category.NOTIFICATIONS,
    payload=ReminderPayload,
    retry=RetryPolicy(max_attempts=5, base_delay_seconds=30),
    timeout_seconds=120,
    idempotency_key=_key,
    once_only=True,
    # Deliveries of a reminder run one after the other, because one counts for all earlier dates.
    lock_key=lambda payload: f"reminder:{payload.reminder_id}",
)
def deliver(payload: ReminderPayload, ctx: JobContext) -> dict[str, Any]:
    """Deliver the reminder, unless its person wants quiet: then when that ends."""
    return deliver_reminder(ctx, payload.reminder_id, payload.user_id, payload.due_at)


@job(
    ENQUEUE_TYPE,
    category=Category.RECURRENCE,
    payload=JobPayload,
    lock_key=lambda _: ENQUEUE_TYPE,
)
def enqueue_due(_: JobPayload, ctx: JobContext) -> dict[str, Any]:
    """Enqueue the due reminders; the system firm's job does it for every firm."""
    return {"enqueued": enqueue_due_reminders(ctx.heartbeat, ctx.firm)}


@job(
    FIND_TYPE,
    category=Category.RECURRENCE,
    payload=SystemPayload,
    lock_key=lambda _: FIND_TYPE,
)
def find(_: SystemPayload, ctx: JobContext) -> dict[str, Any]:
    """Look for what nobody answered in every firm; a job of the system firm."""
    return dict(find_follow_ups(ctx.heartbeat))


default_schedule("Find follow-ups", FIND_TYPE, every_seconds=lambda: FIND_SECONDS)
default_schedule("Enqueue due reminders", ENQUEUE_TYPE, every_seconds=reminders_interval_seconds)
