"""Follow-up reminders: after how many days they come, which are open, and what ends them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from mail.errors import WrongState
from mail.models import (
    EventType,
    MailAccount,
    MailThread,
    Message,
    Reminder,
    ReminderStatus,
    ThreadStatus,
)
from mail.services.mailboxes.accounts import in_firm_scope
from mail.services.mailboxes.change import change_mailbox
from mail.services.timelines.events import record_events
from mail.services.timelines.threads import without_discarded
from tenants.audit import SERVICE, Actor

PAGE_OF_THREAD = "/admin/mail/mailthread/{}/change/"
MAX_DAYS = 60
NO_OWNER = "The mailbox is nobody's own: there is nobody to remind."
_STANDING = (ReminderStatus.ACTIVE, ReminderStatus.DELIVERED)


@in_firm_scope
def set_follow_ups(
    account: MailAccount, *, days: int | None, reason: str = "", by: Actor = SERVICE
) -> None:
    """Remind the owner of messages without an answer for so many days; None switches that off.

    Raises:
        WrongState: the mailbox has no owner.
    """
    if days is not None and account.owner_id is None:
        raise WrongState(NO_OWNER)
    change_mailbox(account, "mailbox.follow_ups", by=by, reason=reason, follow_up_days=days)


def threads_to_follow_up(account: MailAccount) -> QuerySet[MailThread]:
    """Return the threads with an open follow-up reminder. Must run in the firm's scope."""
    standing = Reminder.objects.filter(
        _unanswered(), message__account=account, status__in=_STANDING
    )
    found: QuerySet[MailThread] = MailThread.objects.filter(
        pk__in=standing.values("message__thread_id")
    )
    return found.order_by("last_message_at", "pk")


def is_unanswered(reminder: Reminder) -> bool:
    """Say whether a follow-up reminder's reason still exists. Must run in the firm's scope."""
    return bool(Reminder.objects.filter(_unanswered(), pk=reminder.pk).exists())


def withdraw_answered(account: MailAccount, thread_ids: Collection[UUID] | None = None) -> int:
    """Withdraw reminders whose threads have a newer message, or are done or discarded; count them.

    Without `thread_ids`, in all threads of the mailbox. Must run in the firm's scope.
    """
    rows = Reminder.objects.filter(message__account=account, status__in=_STANDING)
    if thread_ids is not None:
        rows = rows.filter(message__thread_id__in=thread_ids)
    over: list[Any] = list(
        rows.exclude(_unanswered()).select_related("message").only(
            "firm", "message__firm", "message__thread_id"
        )
    )  # fmt: skip
    if over:
        Reminder.objects.filter(pk__in=[one.pk for one in over], status__in=_STANDING).update(
            status=ReminderStatus.WITHDRAWN, due_at=None, changed_at=Now()
        )
        about = [(one.message, {"reminder_id": str(one.pk)}) for one in over]
        record_events(EventType.FOLLOW_UP_WITHDRAWN, account, about)
    return len(over)


def _unanswered() -> Q:
    """Return the condition that a reminder's message is the last of a thread that is not done.

    A thread in the trash counts as done.
    """
    newer = Message.objects.filter(
        thread_id=OuterRef("message__thread_id"),
        internal_date__gte=OuterRef("message__internal_date"),
    ).exclude(pk=OuterRef("message_id"))
    own = MailThread.objects.filter(pk=OuterRef("message__thread_id"))
    return (
        ~Exists(newer)
        & Exists(without_discarded(own))
        & ~Q(message__thread__status=ThreadStatus.ARCHIVED)
    )
