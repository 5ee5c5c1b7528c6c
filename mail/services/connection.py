"""Whether Gmail lets a mailbox's jobs in: connected, to be connected again, or held for a time."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from jobs.queue import enqueue
from mail.errors import MailboxDisconnected, MailboxWaits
from mail.gmail.errors import GmailError, GmailNeedsReauth
from mail.models import MAX_ERROR_LENGTH, Connection, EventType, MailAccount, MailCredential
from mail.services.events import record_event
from tenants.scope import firm_scope

# How long jobs of a mailbox that must be connected again wait from one check to the next.
REAUTH_CHECK_SECONDS = 300
# What Gmail means when it asks for fewer requests and does not say for how long.
HOLD_SECONDS = 60


def check_connection(account: MailAccount) -> None:
    """Let a job of the mailbox call Gmail.

    Raises:
        MailboxDisconnected: nobody permits it any more.
        MailboxWaits: not now.
    """
    if account.connection == Connection.DISCONNECTED:
        raise MailboxDisconnected(f"mailbox {account.pk} is disconnected")
    if account.connection == Connection.NEEDS_REAUTH:
        raise MailboxWaits(
            f"mailbox {account.pk} must be connected again", seconds=REAUTH_CHECK_SECONDS
        )
    if account.held_until is not None:
        seconds = (account.held_until - timezone.now()).total_seconds()
        if seconds > 0:
            message = f"Gmail asked for fewer requests to mailbox {account.pk}"
            raise MailboxWaits(message, seconds=seconds)


def require_reauth(
    account: MailAccount, credential: MailCredential, error: GmailNeedsReauth
) -> None:
    """Note that this credential is no longer good; the first to notice notifies a person."""
    with firm_scope(account.firm_id):
        same = MailCredential.objects.filter(
            pk=credential.pk, refresh_token=credential.refresh_token
        )
        noticed = same.exists() and MailAccount.objects.filter(
            pk=account.pk, connection=Connection.CONNECTED
        ).update(connection=Connection.NEEDS_REAUTH)
        if noticed:
            note_error(account, error)
            record_event(EventType.NEEDS_REAUTH, account, detail={"reason": error.reason})
            enqueue("reauth.notify", {"account_id": account.pk})


def hold_account(account: MailAccount, error: GmailError) -> float:
    """Let no job of the mailbox call Gmail for as long as it asks; return the seconds."""
    seconds = HOLD_SECONDS if error.retry_after is None else error.retry_after
    until = timezone.now() + timedelta(seconds=seconds)
    with firm_scope(account.firm_id):
        shorter = Q(held_until__isnull=True) | Q(held_until__lt=until)
        MailAccount.objects.filter(shorter, pk=account.pk).update(held_until=until)
        note_error(account, error)
    return seconds


def note_error(account: MailAccount, error: GmailError) -> None:
    """Keep the mailbox's last error, for its page. Must run in the firm's scope."""
    MailAccount.objects.filter(pk=account.pk).update(
        last_error=str(error)[:MAX_ERROR_LENGTH], last_error_at=timezone.now()
    )
