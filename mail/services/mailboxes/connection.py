"""Lets a mailbox's jobs call Gmail or not: connected, to be connected again, or held for a time."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from jobs.engine.clock import database_now
from jobs.errors import WrongState
from jobs.models import Pause, RateLimit
from jobs.operations import limits
from jobs.queue import enqueue
from jobs.states import CountedBy
from mail.errors import MailboxDisconnected, MailboxWaits
from mail.gmail import units
from mail.gmail.errors import GmailError, GmailNeedsReauth
from mail.models import MAX_ERROR_LENGTH, Connection, EventType, MailAccount, MailCredential
from mail.services.timelines.events import record_event
from tenants.audit import SERVICE
from tenants.errors import NoEncryptionKey
from tenants.scope import firm_scope

# After how long a job is tried again that was claimed before its mailbox was paused.
REAUTH_CHECK_SECONDS = 300
REAUTH_REASON = "The mailbox must be connected again"
HOLD_REASON = "Gmail asked for fewer requests"
# How long requests are held if Gmail asks for fewer and does not say for how long.
HOLD_SECONDS = 60
# How long if the time that Gmail names is over: a clock is wrong, or the answer took long.
LEAST_HOLD_SECONDS = 1.0
SILENT_REASON = "Gmail does not answer"


def why_not_used(account: MailAccount) -> str:
    """Return why no request of a person can reach the mailbox; empty if it can, even if later."""
    if account.connection == Connection.DISCONNECTED:
        return "The mailbox is disconnected: connect it again first."
    return ""


def mailbox_limit_key(account_id: UUID) -> str:
    """Return the mailbox's limit key, for pauses, breakers and rate limits."""
    return f"mailbox:{account_id}"


def check_connection(account: MailAccount) -> None:
    """Refuse a job that may not call Gmail now; only jobs claimed before a pause are refused here.

    Raises:
        MailboxDisconnected: the mailbox is disconnected.
        MailboxWaits: the mailbox must be connected again, or is held.
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
            message = f"Gmail takes no requests to mailbox {account.pk} for now"
            raise MailboxWaits(message, seconds=seconds)


def require_reauth(
    account: MailAccount, credential: MailCredential | None, error: GmailNeedsReauth
) -> None:
    """Store that this credential is refused: pause the mailbox, and notify a person once.

    Nothing happens if the mailbox has got another credential since. None if it had no credential.
    """
    with firm_scope(account.firm_id):
        stored = MailCredential.objects.filter(account_id=account.pk).first()
        same = (stored and stored.refresh_token) == (credential and credential.refresh_token)
        noticed = same and MailAccount.objects.filter(
            pk=account.pk, connection=Connection.CONNECTED
        ).update(connection=Connection.NEEDS_REAUTH)
        if noticed:
            note_error(account, error)
            record_event(EventType.NEEDS_REAUTH, account, detail={"reason": error.reason})
            resume_mailbox(account)
            _pause_mailbox(account, REAUTH_REASON)
            enqueue("reauth.notify", {"account_id": account.pk})


def hold_account(account: MailAccount, error: GmailError) -> float:
    """Hold the mailbox's jobs for as long as Gmail asks; return the seconds."""
    asked = HOLD_SECONDS if error.retry_after is None else error.retry_after
    seconds = max(asked, LEAST_HOLD_SECONDS)
    with firm_scope(account.firm_id):
        note_error(account, error)
        hold_mailbox(account, seconds, HOLD_REASON)
    return seconds


def hold_mailbox(account: MailAccount, seconds: float, reason: str) -> None:
    """Hold the mailbox's jobs for so many seconds. Must run in the firm's scope."""
    # By the queue's clock, because a pause that ends in its past is refused.
    until = database_now() + timedelta(seconds=seconds)
    shorter = Q(held_until__isnull=True) | Q(held_until__lt=until)
    MailAccount.objects.filter(shorter, pk=account.pk).update(held_until=until)
    _pause_mailbox(account, reason, until=until)


def pace_mailboxes(firm_id: int) -> None:
    """Limit each of the firm's mailboxes to the rate of units that Gmail allows it.

    If somebody has set a rate limit by limit key for the firm, that stays. Must run in the firm's
    scope.
    """
    each_key = {"counted_by": CountedBy.KEY, "job_type": "", "limit_key": ""}
    if not RateLimit.objects.filter(firm_id=firm_id, everywhere=False, **each_key).exists():
        limits.set_rate_limit(
            None,
            units.A_MINUTE,
            60,
            burst=units.AT_ONCE,
            firm=firm_id,
            counted_by=CountedBy.KEY,
        )


def resume_mailbox(account: MailAccount) -> None:
    """Lift the pause that Mailroom itself has set. Must run in the firm's scope."""
    own = Pause.objects.filter(
        firm_id=account.firm_id,
        limit_key=mailbox_limit_key(account.pk),
        category="",
        job_type="",
        paused_by=SERVICE.name,
    ).first()
    if own is not None:
        limits.resume(own)


def _pause_mailbox(account: MailAccount, reason: str, *, until: datetime | None = None) -> None:
    # If there is a pause already, it stays; a job that runs after it sets the next one.
    with suppress(WrongState):
        limits.pause(
            firm=account.firm_id,
            limit_key=mailbox_limit_key(account.pk),
            reason=reason,
            until=until,
        )


def note_error(account: MailAccount, error: GmailError | NoEncryptionKey) -> None:
    """Store the mailbox's last error, which its page shows. Must run in the firm's scope."""
    MailAccount.objects.filter(pk=account.pk).update(
        last_error=str(error)[:MAX_ERROR_LENGTH], last_error_at=timezone.now()
    )
