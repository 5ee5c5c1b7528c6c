"""Catches up after a disconnection: it canceled jobs, and no later history names their mail."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q, Subquery
from django.utils import timezone

from mail.conf import sync_full_days
from mail.llm.base import Category
from mail.models import (
    Action,
    ActionStatus,
    ActionType,
    Decision,
    MailAccount,
    MailThread,
    Message,
    ThreadStatus,
)
from mail.services.mailboxes.modes import may_write, threads_to_label
from mail.services.queueing import (
    enqueue_relabels,
    request_backfill,
    request_label_sync,
    request_lost_snoozes,
    request_sync,
    request_watch,
)
from mail.services.rules.routing import hand_over
from mail.services.syncing.sync import INBOX_AND_SENT

MOST_THREADS = 500


def mail_was_deleted(account: MailAccount) -> bool:
    """Say whether the mail was deleted after a disconnection, or is about to be."""
    is_due = account.delete_mail_at is not None and account.delete_mail_at <= timezone.now()
    return is_due or not Message.objects.filter(account=account).exists()


def request_reading(account: MailAccount, *, anew: bool, mail_deleted: bool) -> None:
    """Have a mailbox synced that was just connected; `anew` after a disconnection.

    Must run in the firm's scope.
    """
    if anew:
        catch_up(account, mail_deleted=mail_deleted)
    else:
        request_sync(account)
    request_label_sync(account)
    request_watch(account)


def catch_up(account: MailAccount, *, mail_deleted: bool) -> None:
    """Have recent mail read, judged and labelled as far as it was not, and lost snoozes woken.

    Must run in the firm's scope.
    """
    sync = request_sync(account, force_full=True)
    # Snoozes are deleted with the mail, and their label stays in Gmail.
    request_lost_snoozes(account)
    if mail_deleted:
        # The sync's scan leaves out mail with Mailroom's labels, which most old mail has.
        request_backfill(account, query=f"{INBOX_AND_SENT} newer_than:{sync_full_days()}d")
        return
    since = _since(account)
    unseen = Q(classification="") | Q(classified_upto__internal_date__lt=F("last_message_at"))
    threads = MailThread.objects.filter(unseen, account=account, last_message_at__gte=since)
    newest = list(threads.order_by("-last_message_at").values_list("pk", flat=True)[:MOST_THREADS])
    messages = Message.objects.filter(thread_id__in=newest, internal_date__gte=since)
    hand_over(
        account,
        [
            message
            for message in messages.order_by("internal_date", "pk")
            if message.outgoing or "INBOX" in message.labels
        ],
    )
    if may_write(account):
        enqueue_relabels(_not_shown(account), sync.job_id)


def _not_shown(account: MailAccount) -> list[MailThread]:
    """Return the recent threads whose decision or draft may not have reached Gmail.

    Threads that were labelled are left alone, because the person may have removed the label since.
    """
    newest = Decision.objects.filter(message__thread=OuterRef("pk")).order_by("-pk")
    labelled = Action.objects.filter(
        message__thread=OuterRef("pk"),
        decision=OuterRef("decided"),
        action_type=ActionType.APPLY_LABEL,
        status=ActionStatus.COMPLETED,
    )
    to_draft = Q(
        classification=Category.NEEDS_RESPONSE,
        status__in=[ThreadStatus.PENDING, ThreadStatus.DRAFTED],
    )
    threads = threads_to_label(account).annotate(decided=Subquery(newest.values("pk")[:1]))
    return list(threads.filter(~Exists(labelled) | to_draft))


def _since(account: MailAccount) -> datetime:
    """Return where the scan begins: some days ago, or a day before the last sync."""
    recent = timezone.now() - timedelta(days=sync_full_days())
    if account.last_sync_at is None:
        return recent
    return min(recent, account.last_sync_at - timedelta(days=1))
