"""Enqueues the digests that are due, and delivers one by each channel that its person wants."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Exists, OuterRef, QuerySet

from jobs.engine.clock import database_now
from jobs.errors import Cancel, Snooze
from jobs.execution.context import JobContext
from jobs.operations.notifications.emails import send_email
from jobs.operations.notifications.webhooks import send_discord
from jobs.queue import EnqueueSpec
from jobs.states import Channel
from mail import discord
from mail.models import Connection, MailAccount, NotificationPreference
from mail.services.dates import enqueue_due_rows
from mail.services.digests.content import Digest, digest_of
from mail.services.mailboxes.content_access import own_or_granted
from mail.services.reminders.preferences import Addressee, addressee, find_preference
from mail.services.send_each_once import LEFT, send_by_every_channel
from tenants.models import Membership
from tenants.scope import firm_scope

EVENT = "digest"
SWITCHED_OFF = "The person wants no digest any more"
NOT_THEIRS = "The mailbox is no longer the person's"
PAST = "The next day's digest is due"
UNREACHABLE = "No channel reaches the person"
NOTHING_TO_SAY = "Nothing waits"
DELIVERY_TYPE = "digest_delivery"


def deliver_digest(ctx: JobContext, user_id: int, account_id: UUID, day: date) -> dict[str, Any]:
    """Deliver one day's digest of a mailbox, and return the job's result.

    A channel that has sent it is not used again in a later attempt. If the worker is killed after
    the channel's answer, before that is recorded, it is sent again: an e-mail with the same
    Message-ID.

    Raises:
        Snooze: the person has quiet hours.
        Cancel: the person left.
        HandlerError: a channel failed; the other channels were used.
    """
    with firm_scope(ctx.firm_id):
        member = Membership.objects.select_related("user").filter(user_id=user_id).first()
        if member is None or not member.user.is_active:
            raise Cancel(LEFT)
        preference = find_preference(ctx.firm_id, user_id)
        # Read again at each attempt, because a grant may have been withdrawn meanwhile.
        account: MailAccount | None = mailboxes_of(user_id).filter(pk=account_id).first()
        person = addressee(ctx.firm_id, member.user)
        reason = _why_not(preference, account, person, day)
    if account is None or reason:
        return {"skipped": True, "reason": reason}
    silent_until = person.silent_until(database_now())
    if silent_until is not None:
        raise Snooze("quiet hours", until=silent_until)
    with firm_scope(ctx.firm_id):
        digest = digest_of(account, day, person.time_zone)
    if digest is None:
        return {"skipped": True, "reason": NOTHING_TO_SAY}
    send_by_every_channel(
        ctx,
        person,
        {
            Channel.EMAIL: partial(_email, ctx, digest),
            Channel.DISCORD: partial(_discord, ctx, digest),
        },
    )
    return {"delivered": True, "channels": [channel.value for channel in person.targets]}


def _why_not(
    preference: NotificationPreference, account: MailAccount | None, person: Addressee, day: date
) -> str:
    if preference.digest_at is None:
        return SWITCHED_OFF
    if account is None:
        return NOT_THEIRS
    if _next_is_queued(preference, preference.digest_at, day):
        return PAST
    return "" if person.targets else UNREACHABLE


def _next_is_queued(preference: NotificationPreference, digest_at: time, day: date) -> bool:
    """Say whether the next day's digest is enqueued, or will be in a moment.

    The time of day does not tell it: the person may have changed to a zone where it is over.
    """
    if preference.due_at is not None and preference.due_at <= database_now():
        return True
    next_at = datetime.combine(day + timedelta(days=1), digest_at, ZoneInfo(preference.time_zone))
    return preference.queued_at is not None and preference.queued_at >= next_at


def _email(ctx: JobContext, digest: Digest, address: str) -> None:
    subject = f"[Mailroom] {digest.address}: {digest.summary}"
    send_email(ctx, [address], subject, digest.text, event=EVENT)


def _discord(ctx: JobContext, digest: Digest, url: str) -> None:
    # No subjects, because a Discord channel may have more readers than the mailbox.
    address, summary = discord.plain(digest.address), discord.plain(digest.summary)
    send_discord(ctx, url, f"**{address}**\n{summary}\n{digest.briefing_page}", EVENT)


def enqueue_due_digests(checkpoint: Callable[[], None]) -> int:
    """Enqueue the digests that are due, of every firm; return how many jobs were created.

    Digests of people who are inactive, or who left the firm, wait until they are back.
    """
    return enqueue_due_rows(_due, _specs, checkpoint=checkpoint)


def mailboxes_of(user_id: int) -> QuerySet[MailAccount]:
    """Return the mailboxes for which a person gets digests. Must run in the firm's scope."""
    found: QuerySet[MailAccount] = MailAccount.objects.filter(own_or_granted(user_id), active=True)
    return found.exclude(connection=Connection.DISCONNECTED)


def _due(now: datetime) -> QuerySet[NotificationPreference]:
    member = Membership.objects.filter(user_id=OuterRef("user_id"), firm_id=OuterRef("firm_id"))
    found: QuerySet[NotificationPreference] = NotificationPreference.objects.filter(
        Exists(member), due_at__lte=now, digest_at__isnull=False, user__is_active=True
    )
    return found.select_related("user")


def _specs(row: NotificationPreference, due_at: datetime) -> list[EnqueueSpec]:
    # The day in the person's time zone is part of the job's key, so that there is one job a day.
    day = due_at.astimezone(ZoneInfo(row.time_zone)).date()
    about: dict[str, Any] = {"user_id": row.user_id, "day": day.isoformat()}
    return [
        EnqueueSpec(DELIVERY_TYPE, {**about, "account_id": account_id}, user=row.user)
        for account_id in mailboxes_of(row.user_id).order_by("pk").values_list("pk", flat=True)
    ]
