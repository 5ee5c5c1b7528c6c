"""Takes a push: requests one pending sync for each mailbox with its address."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from enum import StrEnum

from django.utils import timezone

from mail.gmail.push import Notification
from mail.models import Connection, MailAccount, PushReceipt
from mail.services.queueing import has_pending_sync, request_sync
from tenants.scope import all_firms, firm_scope

# Pub/Sub repeats messages that are not acknowledged for a week at most.
RECEIPT_DAYS = 7


class Effect(StrEnum):
    """The effect of a push on one mailbox."""

    ENQUEUED = "enqueued"
    PENDING = "pending"
    """A sync waits already."""
    REPEATED = "repeated"
    """The same message of Pub/Sub's came before."""
    READ = "read"
    """The mailbox has been synced up to there already."""


def take_notification(notification: Notification) -> Counter[Effect]:
    """Have the mailboxes with the address synced, in any firm; empty if no mailbox has it."""
    with all_firms("a notification names an address and no firm"):
        accounts = list(
            MailAccount.objects.filter(
                address=notification.address,
                active=True,
                connection=Connection.CONNECTED,
                firm__active=True,
            )
            .exclude(owner__is_active=False)
            .order_by("pk")
        )
    effects: Counter[Effect] = Counter()
    for account in accounts:
        with firm_scope(account.firm_id):
            effects[_take(account, notification)] += 1
    return effects


def forget_old_receipts(account: MailAccount) -> None:
    """Delete receipts of messages that Pub/Sub no longer repeats. Must run in the firm's scope."""
    old = timezone.now() - timedelta(days=RECEIPT_DAYS)
    PushReceipt.objects.filter(account=account, received_at__lt=old).delete()


def _take(account: MailAccount, notification: Notification) -> Effect:
    cursor = account.history_cursor
    if cursor is not None and notification.history_id <= cursor:
        return Effect.READ
    _, is_new = PushReceipt.objects.get_or_create(
        account=account,
        message_id=notification.message_id,
        defaults={"history_id": notification.history_id},
    )
    if not is_new:
        return Effect.REPEATED
    if has_pending_sync(account):
        return Effect.PENDING
    requested = request_sync(account, history_id=str(notification.history_id))
    return Effect.ENQUEUED if requested.created else Effect.PENDING
