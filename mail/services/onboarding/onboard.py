"""Reads the last days of a new mailbox and tells its owner what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from jobs.execution.context import JobContext
from jobs.operations.escalation import escalation_recipients
from jobs.operations.notifications.emails import send_email
from jobs.operations.notifications.webhooks import send_discord
from jobs.states import Channel
from mail.conf import onboarding_days, onboarding_messages
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailRateLimited
from mail.models import MailAccount, Message
from mail.services.mailboxes.connection import hold_account
from mail.services.queueing import enqueue_ingests
from mail.services.reminders.preferences import addressee
from mail.services.send_each_once import send_each_once
from mail.services.syncing.ingest import ingest_page
from mail.services.syncing.sync import INBOX_AND_SENT
from tenants.scope import firm_scope

EVENT = "onboarding"
# Messages in one step; after a kill, the steps before are not repeated.
PART = 50
MAX_PREVIEW = 500


@dataclass(frozen=True)
class Overview:
    """What onboarding found, in numbers."""

    messages: int
    conversations: int
    unread: int
    remaining: int = 0

    def in_words(self, address: str, days: int) -> str:
        """Return the numbers as a text for people, without anything that the mail says."""
        text = (
            f"Mailroom has read {_counted(self.messages, 'message')} of the last {days} days in "
            f"{address}: {_counted(self.conversations, 'conversation')}, {self.unread} unread."
        )
        if self.remaining:
            more = _counted(self.remaining, "more message")
            text += f" Gmail asked for a pause: {more} will follow."
        return text


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def onboard(ctx: JobContext, account: MailAccount, gmail: GmailClient) -> dict[str, Any]:
    """Read the mailbox's last days, tell its owner, and return the job's result.

    If Gmail asks for fewer requests meanwhile, the result is partial, and jobs read the rest.
    """
    found: list[str] = ctx.step("list", _list, gmail)
    read = 0
    for number, part in enumerate(_parts(found)):
        try:
            ctx.step(f"read:{number}", ingest_page, account, gmail, part)
        except GmailRateLimited as error:
            if number == 0:
                raise
            hold_account(account, error)
            break
        read += len(part)
    left = found[read:]
    overview = _overview(account, found[:read], len(left))
    if left:
        with firm_scope(account.firm_id):
            enqueue_ingests(account, left)
    text = overview.in_words(account.address, onboarding_days())
    return {
        "output_preview": text[:MAX_PREVIEW],
        "messages": overview.messages,
        "partial": bool(left),
        "remaining": len(left),
        "notified": _notify(ctx, account, text),
    }


def _list(gmail: GmailClient) -> list[str]:
    query = f"{INBOX_AND_SENT} newer_than:{onboarding_days()}d"
    most = onboarding_messages()
    found: list[str] = []
    page_token: str | None = None
    while len(found) < most:
        page = gmail.list_messages(query, page_token, min(most - len(found), PART * 2))
        found += [one["id"] for one in page.get("messages", [])]
        page_token = page.get("nextPageToken")
        if not page_token:
            break
    return found[:most]


def _overview(account: MailAccount, gmail_message_ids: Sequence[str], left: int) -> Overview:
    with firm_scope(account.firm_id):
        stored = Message.objects.filter(account=account, gmail_message_id__in=gmail_message_ids)
        rows = list(stored.values_list("thread_id", "labels"))
    unread = sum("UNREAD" in labels for _, labels in rows)
    return Overview(len(rows), len({thread for thread, _ in rows}), unread, left)


def _notify(ctx: JobContext, account: MailAccount, text: str) -> list[str]:
    """Tell the owner by their channels, or, for a shared mailbox, the firm's admins by e-mail.

    Each channel is used once, even if another fails.
    """
    with firm_scope(account.firm_id):
        if account.owner is not None:
            targets = addressee(account.firm_id, account.owner).targets
            to = [targets[Channel.EMAIL]] if Channel.EMAIL in targets else []
            webhook = targets.get(Channel.DISCORD, "")
        else:
            to, webhook = escalation_recipients(account.firm_id, None), ""
    subject = "[Mailroom] Your mailbox is connected"
    sendings: dict[str, Callable[[], object]] = {}
    if to:
        sendings[Channel.EMAIL.value] = partial(
            send_email, ctx, to, subject, f"{text}\n", event=EVENT
        )
    if webhook:
        sendings[Channel.DISCORD.value] = partial(send_discord, ctx, webhook, text, EVENT)
    send_each_once(ctx, sendings)
    return list(sendings)


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + PART] for start in range(0, len(ids), PART)]
