"""Whether Gmail lets a mailbox's jobs in: connected, to be connected again, or held for a time."""

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
from tenants.scope import firm_scope

# When a job is tried again that was claimed before its mailbox was paused.
REAUTH_CHECK_SECONDS = 300
REAUTH_REASON = "The mailbox must be connected again"
HOLD_REASON = "Gmail asked for fewer requests"
# What Gmail means when it asks for fewer requests and does not say for how long.
HOLD_SECONDS = 60
# What it means when the time it names is over: a clock is wrong, or the answer was long on its way.
LEAST_HOLD_SECONDS = 1.0
SILENT_REASON = "Gmail does not answer"


def why_not_used(account: MailAccount) -> str:
    """Return why nothing that a person asks for will reach the mailbox, empty where it may yet."""
    if account.connection == Connection.DISCONNECTED:
        return "The mailbox is disconnected: connect it again first."
    return ""


def mailbox_limit_key(account_id: UUID) -> str:
    """Name the mailbox to the queue's pauses, breakers and rate limits."""
    return f"mailbox:{account_id}"


def check_connection(account: MailAccount) -> None:
    """Let a job of the mailbox call Gmail; only jobs claimed before a pause find an obstacle here.

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
            message = f"Gmail takes no requests to mailbox {account.pk} for now"
            raise MailboxWaits(message, seconds=seconds)


def require_reauth(
    account: MailAccount, credential: MailCredential | None, error: GmailNeedsReauth
) -> None:
    """Note that this credential is no longer good: pause the mailbox, and notify a person once.

    Nothing happens where the mailbox has another credential by now; None: it had none.
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
    """Let no job of the mailbox call Gmail for as long as it asks; return the seconds."""
    asked = HOLD_SECONDS if error.retry_after is None else error.retry_after
    seconds = max(asked, LEAST_HOLD_SECONDS)
    with firm_scope(account.firm_id):
        note_error(account, error)
        hold_mailbox(account, seconds, HOLD_REASON)
    return seconds


def hold_mailbox(account: MailAccount, seconds: float, reason: str) -> None:
    """Let no job of the mailbox call Gmail for so long. Must run in the firm's scope."""
    # The queue's clock: a pause that ends in its past is refused.
    until = database_now() + timedelta(seconds=seconds)
    shorter = Q(held_until__isnull=True) | Q(held_until__lt=until)
    MailAccount.objects.filter(shorter, pk=account.pk).update(held_until=until)
    _pause_mailbox(account, reason, until=until)


def pace_mailboxes(firm_id: int) -> None:
    """Have the firm's mailboxes spend Gmail's units no faster than Gmail lets each of them.

    A rate that somebody has set for each limit key of the firm stays. Must run in the firm's scope.
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
    """Lift the pause that the service itself has set. Must run in the firm's scope."""
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
    # Where it is paused already, that pause holds: a job that comes after it will set the next.
    with suppress(WrongState):
        limits.pause(
            firm=account.firm_id,
            limit_key=mailbox_limit_key(account.pk),
            reason=reason,
            until=until,
        )


def note_error(account: MailAccount, error: GmailError) -> None:
    """Keep the mailbox's last error, for its page. Must run in the firm's scope."""
    MailAccount.objects.filter(pk=account.pk).update(
        last_error=str(error)[:MAX_ERROR_LENGTH], last_error_at=timezone.now()
    )
