"""What waits for a mailbox's person: threads by category, drafts, approvals, proposals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, QuerySet
from django.utils import timezone

from mail.llm.base import Category
from mail.models import (
    Approval,
    ApprovalStatus,
    Draft,
    DraftStatus,
    MailAccount,
    MailThread,
    OutboundMessage,
    OutboundStatus,
    Rule,
    ThreadStatus,
)
from mail.services.reminders.follow_ups import threads_to_follow_up
from mail.services.timelines.threads import without_discarded

SHOWN = 10
DAYS = 30
MAX_DAYS = 365
# The categories that want something of the person, the most pressing first.
WANTED = (Category.NEEDS_RESPONSE, Category.ACTION_REQUIRED, Category.PAYMENT_REQUEST)
_OVER = (ThreadStatus.SENT, ThreadStatus.ARCHIVED)


@dataclass(frozen=True)
class Part:
    """Rows of one kind: how many there are, and the first of them."""

    count: int
    first: list[Any]


@dataclass(frozen=True)
class Briefing:
    """What waits for a mailbox's person, in threads with a message of the last `days`."""

    account: MailAccount
    days: int
    categories: dict[str, int]
    """How many threads have each category, without threads that are done."""
    for_you: Part
    """Threads that want something of the person, the oldest first."""
    for_others: Part
    """Threads in which somebody else is to answer, the oldest first, without `follow_ups`."""
    follow_ups: Part
    """Threads in which nobody has answered the owner, who was reminded of them."""
    drafts: Part
    approvals: Part
    in_doubt: Part
    """Outbound messages that may or may not have been sent, so that a person must look."""
    proposed_rules: Part


def briefing_of(account: MailAccount, *, days: int = DAYS) -> Briefing:
    """Return a mailbox's briefing, which quotes its mail. Must run in the firm's scope."""
    oldest = _open_threads(account, days).order_by("last_message_at", "pk")
    unanswered = threads_to_follow_up(account)
    drafts = Draft.objects.filter(account=account, status=DraftStatus.READY)
    asked = Approval.objects.filter(account=account, status=ApprovalStatus.PENDING)
    in_doubt = OutboundMessage.objects.filter(account=account, status=OutboundStatus.UNKNOWN)
    return Briefing(
        account=account,
        days=days,
        categories=open_by_category(account, days),
        for_you=_part(oldest.filter(classification__in=WANTED).exclude(status__in=_OVER)),
        for_others=_part(
            oldest.filter(classification=Category.WAITING).exclude(pk__in=unanswered.values("pk"))
        ),
        follow_ups=_part(unanswered),
        drafts=_part(drafts.select_related("thread").order_by("pk")),
        approvals=_part(asked.select_related("action", "outbound", "message").order_by("pk")),
        in_doubt=_part(in_doubt.order_by("pk")),
        proposed_rules=_part(Rule.objects.filter(account=account, corrections__gt=0)),
    )


def open_by_category(account: MailAccount, days: int) -> dict[str, int]:
    """Count the threads with a message of the last days that are not done, by category.

    Must run in the firm's scope.
    """
    counts = _open_threads(account, days).values_list("classification").annotate(Count("pk"))
    counted = dict(counts.order_by())
    return {one.value: counted.get(one.value, 0) for one in Category}


def _open_threads(account: MailAccount, days: int) -> QuerySet[MailThread]:
    return open_among(MailThread.objects.filter(account=account), days)


def open_among(threads: QuerySet[MailThread], days: int = DAYS) -> QuerySet[MailThread]:
    """Return those of the threads that the briefing of their mailbox counts by category.

    Must run in a scope that has them.
    """
    since = timezone.now() - timedelta(days=days)
    recent = threads.filter(last_message_at__gte=since)
    return without_discarded(
        recent.exclude(classification="").exclude(status=ThreadStatus.ARCHIVED)
    )


def _part(rows: QuerySet[Any]) -> Part:
    first = list(rows[: SHOWN + 1])
    if len(first) <= SHOWN:
        return Part(len(first), first)
    return Part(rows.count(), first[:SHOWN])
