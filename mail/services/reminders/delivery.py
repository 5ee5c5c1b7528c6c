"""Enqueues the reminders that are due, and delivers one by each channel its person wants, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Exists, OuterRef, QuerySet

from jobs.engine.clock import database_now
from jobs.errors import Cancel, Fatal, Snooze
from jobs.execution.context import JobContext
from jobs.operations.notifications.emails import send_email
from jobs.operations.notifications.webhooks import send_discord
from jobs.queue import EnqueueSpec
from jobs.states import Channel
from mail import discord
from mail.conf import public_url
from mail.models import Reminder, ReminderStatus
from mail.services.dates import enqueue_due_rows
from mail.services.reminders.follow_ups import (
    PAGE_OF_THREAD,
    is_unanswered,
    withdraw_answered,
)
from mail.services.reminders.preferences import Addressee, addressee
from mail.services.send_each_once import LEFT, send_by_every_channel
from tenants.models import Firm, Membership
from tenants.scope import firm_scope

EVENT = "reminder"
NOT_FOUND = "Reminder not found"
CANCELED = "Reminder is canceled"
ANSWERED = "Nobody waits for an answer any more"
DELIVERED_SINCE = "The reminder was already delivered after this date"
MOVED = "Reminder was given other dates"
NOT_THEIRS = "The mailbox is no longer the person's"
DELIVERY_TYPE = "reminder_delivery"


def deliver_reminder(
    ctx: JobContext, reminder_id: UUID, user_id: int, due_at: datetime | None
) -> dict[str, Any]:
    """Deliver one date of a reminder, and return the job's result.

    A channel that has sent it is not used again in a later attempt. If the worker is killed after
    the channel's answer, before that is recorded, it is sent again: an e-mail with the same
    Message-ID.

    Raises:
        Snooze: the person has quiet hours.
        Cancel: the person left.
        Fatal: no channel reaches the person.
        HandlerError: a channel failed; the other channels were used.
    """
    with firm_scope(ctx.firm_id):
        rows = Reminder.objects.select_related("user", "message__account").defer("message__html")
        reminder: Reminder | None = rows.filter(pk=reminder_id, user_id=user_id).first()
        reason = _why_not(reminder, due_at)
        if reminder is None or reason:
            return {"skipped": True, "reason": reason}
        if reminder.message is not None and not is_unanswered(reminder):
            withdraw_answered(reminder.message.account, [reminder.message.thread_id])
            return {"skipped": True, "reason": ANSWERED}
        is_member = Membership.objects.filter(user_id=user_id).exists()
        if not is_member or not reminder.user.is_active:
            raise Cancel(LEFT)
        person = addressee(ctx.firm_id, reminder.user)
    silent_until = person.silent_until(database_now())
    if silent_until is not None:
        raise Snooze("quiet hours", until=silent_until)
    if not person.targets:
        raise Fatal("no channel reaches the person: they have no address, or want no e-mails")
    when = _when(person, due_at)
    send_by_every_channel(
        ctx,
        person,
        {
            Channel.EMAIL: partial(_email, ctx, reminder, when),
            Channel.DISCORD: partial(_discord, ctx, reminder, when),
        },
    )
    result = {
        "delivered": True,
        "reminder_id": str(reminder_id),
        "channels": [channel.value for channel in person.targets],
    }
    with ctx.transaction() as tx:
        _note_delivery(reminder_id)
        tx.result = result
    return result


def _why_not(reminder: Reminder | None, due_at: datetime | None) -> str:
    if reminder is None:
        return NOT_FOUND
    if reminder.status == ReminderStatus.CANCELED:
        return CANCELED
    if reminder.status == ReminderStatus.WITHDRAWN:
        return ANSWERED
    if reminder.message is not None and reminder.message.account.owner_id != reminder.user_id:
        return NOT_THEIRS
    if due_at is None:
        return ""
    if due_at < reminder.planned_at:
        return MOVED
    # Quiet hours, a pause or an outage may hold back several dates; one delivery serves them all.
    is_late = reminder.delivered_at is not None and due_at <= reminder.delivered_at
    return DELIVERED_SINCE if is_late else ""


def _email(ctx: JobContext, reminder: Reminder, when: str, address: str) -> None:
    subject = f"[Mailroom] Reminder: {reminder.title}"
    body = f"{reminder.body or reminder.title}\n\n{when}\n"
    send_email(ctx, [address], subject, body, event=EVENT)


def _discord(ctx: JobContext, reminder: Reminder, when: str, url: str) -> None:
    text = f"**Reminder: {reminder.title}**\n{reminder.body}\n{when}"
    if reminder.message is not None:
        # Neither subject nor recipient, because a channel may have more readers than the mailbox.
        address = discord.plain(reminder.message.account.address)
        page = f"{public_url()}{PAGE_OF_THREAD.format(reminder.message.thread_id)}"
        text = f"**Reminder: no answer yet in {address}**\n{page}\n{when}"
    send_discord(ctx, url, text, EVENT)


def _when(person: Addressee, due_at: datetime | None) -> str:
    if due_at is None:
        return ""
    return f"Due: {due_at.astimezone(ZoneInfo(person.time_zone)):%Y-%m-%d %H:%M %Z}"


def _note_delivery(reminder_id: UUID) -> None:
    """Store that the reminder was delivered; a reminder without further dates is done."""
    mine = Reminder.objects.filter(pk=reminder_id)
    mine.update(delivered_at=database_now())
    mine.filter(due_at=None, status=ReminderStatus.ACTIVE).update(status=ReminderStatus.DELIVERED)


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
    return found.select_related("user")


def _specs(reminder: Reminder, due_at: datetime) -> list[EnqueueSpec]:
    payload: dict[str, Any] = {
        "reminder_id": reminder.pk,
        "user_id": reminder.user_id,
        "due_at": due_at.astimezone(UTC).isoformat(),
    }
    return [EnqueueSpec(DELIVERY_TYPE, payload, user=reminder.user)]
