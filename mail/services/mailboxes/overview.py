"""Counts a mailbox's mail, decisions and jobs."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, QuerySet

from jobs.models import DeadLetterQueue, JobQueue
from jobs.states import LIVE, OPEN_RESOLUTIONS
from mail.models import (
    Action,
    Approval,
    ApprovalStatus,
    Decision,
    Draft,
    MailAccount,
    MailThread,
    Message,
)
from tenants.scope import firm_scope


@dataclass(frozen=True)
class Example:
    """One decision: on which message, which category, and why."""

    subject: str
    category: str
    source: str
    rationale: str


@dataclass(frozen=True)
class Overview:
    """Mail and decisions of one mailbox; jobs and open dead letters of its firm."""

    messages: int
    threads: int
    decisions: dict[str, int]
    """By category."""
    actions: dict[str, dict[str, int]]
    """By type, then by status."""
    drafts: dict[str, dict[str, int]]
    """By source, then by status."""
    jobs: dict[str, int]
    """By status."""
    dead_letters: int
    approvals_waiting: int
    examples: list[Example]
    """The newest decision of each category."""


def overview_of(account: MailAccount) -> Overview:
    """Return the counts as of now. It reads whole tables, so it is for commands, not for pages."""
    with firm_scope(account.firm_id):
        return Overview(
            messages=Message.objects.filter(account=account).count(),
            threads=MailThread.objects.filter(account=account).count(),
            decisions=_counts(Decision.objects.filter(account=account), "category"),
            actions=_by_status(Action.objects.filter(account=account), "action_type"),
            drafts=_by_status(Draft.objects.filter(account=account), "source"),
            jobs=_counts(JobQueue.objects.all(), "status"),
            dead_letters=DeadLetterQueue.objects.filter(resolution__in=OPEN_RESOLUTIONS).count(),
            approvals_waiting=Approval.objects.filter(
                account=account, status=ApprovalStatus.PENDING
            ).count(),
            examples=_examples(account),
        )


def live_jobs(account: MailAccount) -> int:
    """Return how many jobs of the mailbox's firm are waiting or running."""
    with firm_scope(account.firm_id):
        count: int = JobQueue.objects.filter(status__in=list(LIVE)).count()
    return count


def _examples(account: MailAccount) -> list[Example]:
    decisions = Decision.objects.filter(account=account).select_related("message")
    newest: dict[str, Decision] = {}
    for decision in decisions.order_by("category", "-pk"):
        newest.setdefault(decision.category, decision)
    return [
        Example(one.message.subject, one.category, one.source, one.rationale)
        for one in newest.values()
    ]


def _by_status(rows: QuerySet, column: str) -> dict[str, dict[str, int]]:  # type: ignore[type-arg]  # any table
    found: dict[str, dict[str, int]] = {}
    counted = rows.values_list(column, "status").annotate(Count("pk"))
    for value, status, count in counted.order_by(column, "status"):
        found.setdefault(value, {})[status] = count
    return found


def _counts(rows: QuerySet, column: str) -> dict[str, int]:  # type: ignore[type-arg]  # any table
    return dict(rows.values_list(column).annotate(Count("pk")).order_by(column))
