"""What the mail app's job types share: payload, retry policy, the way in, the way errors leave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from jobs.breaker import Breaker
from jobs.errors import Cancel, Fatal, HandlerError, Retryable, Snooze
from jobs.registry import JobPayload
from jobs.retry import RetryPolicy
from mail.errors import MailboxInactive, MailError
from mail.gmail.client import GmailClient
from mail.gmail.errors import (
    GmailBadRequest,
    GmailError,
    GmailForbidden,
    GmailNotFound,
    GmailRateLimited,
)
from mail.models import MailAccount
from mail.services.accounts import usable_account
from mail.services.gmail_connection import gmail_of

GMAIL_RETRY = RetryPolicy(max_attempts=5, base_delay_seconds=5)
# Refused credentials or an outage of Gmail fail every job of a mailbox alike: better wait than try.
GMAIL_BREAKER = Breaker(min_attempts=10, window_seconds=300)

_FINAL = (GmailBadRequest, GmailForbidden, GmailNotFound)


class AccountPayload(JobPayload):
    """A job about one mailbox."""

    account_id: UUID


def mailbox_key(payload: AccountPayload) -> str:
    """Return the limit key of a job about one mailbox."""
    return f"mailbox:{payload.account_id}"


@contextmanager
def mailbox(payload: AccountPayload) -> Iterator[tuple[MailAccount, GmailClient]]:
    """Give the job's mailbox and its Gmail; what goes wrong inside leaves as the queue's errors.

    Raises:
        Fatal: trying again cannot help, or the mailbox is gone.
        Retryable: Gmail, or its credentials, may work later.
        Snooze: Gmail said when to come back.
        Cancel: the mailbox is switched off.
    """
    try:
        account = usable_account(payload.tenant_id, payload.account_id)
        yield account, gmail_of(account)
    except GmailError as error:
        raise verdict_on(error) from error
    except MailboxInactive as error:
        raise Cancel(str(error)) from error
    except MailError as error:
        raise Fatal(str(error)) from error


def verdict_on(error: GmailError) -> HandlerError:
    """Return what an error of Gmail's means for the job that met it."""
    if isinstance(error, GmailRateLimited) and error.retry_after is not None:
        return Snooze(str(error), seconds=error.retry_after)
    if isinstance(error, _FINAL):
        return Fatal(str(error))
    return Retryable(str(error), retry_after=error.retry_after)
