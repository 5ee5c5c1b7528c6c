"""Asks for what a disconnection cut off: its jobs ended canceled, and no history tells of them again."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q
from django.utils import timezone

from mail.conf import sync_full_days
from mail.models import MailAccount, MailThread, Message
from mail.services.queueing import (
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
    """Say whether the stored mail is gone, or on its way out, since a disconnection."""
    is_due = account.delete_mail_at is not None and account.delete_mail_at <= timezone.now()
    return is_due or not Message.objects.filter(account=account).exists()


def request_reading(account: MailAccount, *, anew: bool, mail_deleted: bool) -> None:
    """Have a mailbox read that was just connected: what is new, or `anew` after a disconnection.

    Must run in the firm's scope.
    """
    if anew:
        catch_up(account, mail_deleted=mail_deleted)
    else:
        request_sync(account)
    request_label_sync(account)
    request_watch(account)


def catch_up(account: MailAccount, *, mail_deleted: bool) -> None:
    """Have recent mail read that is not stored, judged that was not, and woken that nobody will wake.

    Must run in the firm's scope.
    """
    request_sync(account, force_full=True)
    # Snoozes are deleted with the mail, and their label stays in Gmail.
    request_lost_snoozes(account)
    if mail_deleted:
        # A scan leaves out what carries our labels, which is most of what was there.
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


def _since(account: MailAccount) -> datetime:
    """Return when what a scan looks at begins: some days ago, or a day before the last sync."""
    recent = timezone.now() - timedelta(days=sync_full_days())
    if account.last_sync_at is None:
        return recent
    return min(recent, account.last_sync_at - timedelta(days=1))
