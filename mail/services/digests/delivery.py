"""Delivers a digest by each channel that its person wants, if they still want it."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from jobs.engine.clock import database_now
from jobs.errors import Cancel, Snooze
from jobs.execution.context import JobContext
from jobs.operations.notifications.emails import send_email
from jobs.operations.notifications.webhooks import send_discord
from jobs.states import Channel
from mail import discord
from mail.models import MailAccount, NotificationPreference
from mail.services.digests.content import Digest, digest_of
from mail.services.digests.due import mailboxes_of
from mail.services.reminders.channels import LEFT, send_by_every_channel
from mail.services.reminders.preferences import Addressee, addressee, find_preference
from tenants.models import Membership
from tenants.scope import firm_scope

EVENT = "digest"
SWITCHED_OFF = "The person wants no digest any more"
NOT_THEIRS = "The mailbox is no longer the person's"
PAST = "The next day's digest is due"
UNREACHABLE = "No channel reaches the person"
NOTHING_TO_SAY = "Nothing waits"


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
