"""What the mail app's job types share: payload, retries, the mailbox, translation of errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from jobs.breaker import Breaker
from jobs.errors import Cancel, Fatal, HandlerError, LeaseLost, Retryable, Snooze
from jobs.execution.context import JobContext
from jobs.registry import JobPayload
from jobs.retry import RetryPolicy
from mail.errors import MailboxDisconnected, MailboxInactive, MailboxWaits, MailError, RowGone
from mail.gmail.client import GmailClient
from mail.gmail.errors import (
    REFRESH_IN_PROGRESS,
    GmailAuthExpired,
    GmailBadRequest,
    GmailError,
    GmailForbidden,
    GmailMisconfigured,
    GmailNeedsReauth,
    GmailNotFound,
    GmailRateLimited,
    GmailSendingLimited,
)
from mail.llm.client import ModelError, ModelUnavailable
from mail.models import MailAccount
from mail.services.deciding.budget import BudgetSpent, ModelPaused, seconds_to_next_day
from mail.services.mailboxes.accounts import usable_account
from mail.services.mailboxes.connection import (
    LEAST_HOLD_SECONDS,
    hold_account,
    mailbox_limit_key,
    note_error,
)
from mail.services.mailboxes.credentials import gmail_of
from mail.services.mailboxes.unanswered import alone_while_silent
from tenants.errors import NoEncryptionKey
from tenants.scope import firm_scope

GMAIL_RETRY = RetryPolicy(max_attempts=5, base_delay_seconds=5)
# Refused credentials or an outage of Gmail fail all jobs of a mailbox, so they had better wait.
GMAIL_BREAKER = Breaker(min_attempts=10, window_seconds=300)

# How long a job waits while another job renews the mailbox's access token.
REFRESH_SECONDS = 10
# How long a job waits whose credentials were just refused. After that, the mailbox's pause holds
# the job back until somebody connects the mailbox again; a longer wait would outlast that.
REFUSED_SECONDS = 5
# How long a job waits for a worker that has the key of a stored secret: during a rotation of keys
# the workers are restarted one after the other.
KEY_SECONDS = 30
# How long a message waits if its mailbox has sent too many, and Gmail does not say for how long.
SENDING_LIMIT_SECONDS = 900

_FINAL = (GmailBadRequest, GmailForbidden, GmailNotFound)
_ABOUT_THE_ACCOUNT = (GmailAuthExpired, GmailForbidden)


class AccountPayload(JobPayload):
    """A job about one mailbox."""

    account_id: UUID


def mailbox_key(payload: AccountPayload) -> str:
    """Return the limit key of a job about one mailbox."""
    return mailbox_limit_key(payload.account_id)


@contextmanager
def mailbox(payload: AccountPayload) -> Iterator[tuple[MailAccount, GmailClient]]:
    """Yield the job's mailbox and its Gmail client; turn errors inside into the queue's errors.

    Raises:
        Fatal: trying again cannot help, or the mailbox is gone.
        Retryable: Gmail, or its credentials, may work later.
        Snooze: no job of the mailbox may call Gmail now.
        Cancel: the mailbox is switched off or disconnected, or what the job is about was deleted.
    """
    with usable_mailbox(payload.tenant_id, payload.account_id) as found:
        yield found


@contextmanager
def usable_mailbox(firm_id: int, account_id: UUID) -> Iterator[tuple[MailAccount, GmailClient]]:
    """Yield a mailbox by its id, as `mailbox` does."""
    try:
        account = usable_account(firm_id, account_id)
        with _kept_errors(account):
            gmail = gmail_of(account)
            with alone_while_silent(account, gmail):
                yield account, gmail
    except MailboxWaits as error:
        raise Snooze(str(error), seconds=error.seconds) from error
    except (MailboxInactive, MailboxDisconnected, RowGone) as error:
        raise Cancel(str(error)) from error
    except MailError as error:
        raise Fatal(str(error)) from error


@contextmanager
def model_errors() -> Iterator[None]:
    """Turn a language model's failures into the queue's errors."""
    try:
        yield
    except ModelPaused as error:
        raise Snooze(str(error), seconds=error.seconds) from error
    except BudgetSpent as error:
        raise Snooze(str(error), seconds=seconds_to_next_day()) from error
    except ModelUnavailable as error:
        raise Retryable(str(error), retry_after=error.retry_after) from error
    except ModelError as error:
        raise Retryable(str(error)) from error


@contextmanager
def _kept_errors(account: MailAccount) -> Iterator[None]:
    """Turn Gmail's errors, and a missing key, into the queue's errors.

    What concerns all of the account's jobs is stored in the account.
    """
    try:
        yield
    except GmailSendingLimited as error:
        # The mailbox is not held: its mail is read and labelled all the same.
        with firm_scope(account.firm_id):
            note_error(account, error)
        asked = SENDING_LIMIT_SECONDS if error.retry_after is None else error.retry_after
        raise Snooze(str(error), seconds=max(asked, LEAST_HOLD_SECONDS)) from error
    except (GmailRateLimited, GmailMisconfigured) as error:
        raise Snooze(str(error), seconds=hold_account(account, error)) from error
    except GmailNeedsReauth as error:
        raise Snooze(str(error), seconds=REFUSED_SECONDS) from error
    except NoEncryptionKey as error:
        with firm_scope(account.firm_id):
            note_error(account, error)
        raise Snooze(str(error), seconds=KEY_SECONDS) from error
    except GmailError as error:
        if error.reason == REFRESH_IN_PROGRESS:
            raise Snooze(str(error), seconds=REFRESH_SECONDS) from error
        if isinstance(error, _ABOUT_THE_ACCOUNT):
            with firm_scope(account.firm_id):
                note_error(account, error)
        if isinstance(error, _FINAL):
            raise Fatal(str(error)) from error
        raise Retryable(str(error), retry_after=error.retry_after) from error


@contextmanager
def waiting_for_keys() -> Iterator[None]:
    """Let a job that decrypts outside of `mailbox` wait, too, while its worker lacks the key."""
    try:
        yield
    except NoEncryptionKey as error:
        raise Snooze(str(error), seconds=KEY_SECONDS) from error


@contextmanager
def failing_at_last(ctx: JobContext, fail: Callable[[str], None]) -> Iterator[None]:
    """Call `fail` with a text that quotes no mail if no further attempt will be made."""
    try:
        yield
    except (Snooze, Cancel, LeaseLost):
        raise
    except Exception as error:
        if isinstance(error, Fatal) or ctx.is_last_attempt:
            # Errors that are not ours may quote mail.
            fail(str(error) if isinstance(error, HandlerError) else type(error).__name__)
        raise
