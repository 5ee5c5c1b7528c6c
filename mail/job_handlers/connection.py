"""A mailbox's connection: `reauth.notify`, and after its end `revoke.gmail` and `erase.gmail`."""

from __future__ import annotations

from typing import Any

from jobs.errors import Retryable
from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.retry import RetryPolicy
from jobs.states import Category
from mail.gmail.errors import GmailError
from mail.job_handlers.base import AccountPayload
from mail.services.mailboxes.connect_account import revoke_credential
from mail.services.mailboxes.erase_mail import count_mail, erase_mail
from mail.services.mailboxes.notices import send_reauth_notice


@job(
    "revoke.gmail",
    category=Category.MAINTENANCE,
    payload=AccountPayload,
    # Retried for half a day, because the permission may be valid until Google confirms its end.
    retry=RetryPolicy(max_attempts=18, base_delay_seconds=30),
    idempotency_key=lambda payload: f"revoke.gmail:{payload.account_id}",
)
def revoke(payload: AccountPayload, _: JobContext) -> dict[str, Any]:
    """Withdraw the permission at Google."""
    try:
        return revoke_credential(payload.account_id, payload.tenant_id)
    except GmailError as error:
        raise Retryable(str(error), retry_after=error.retry_after) from error


@job("erase.gmail", category=Category.MAINTENANCE, payload=AccountPayload)
def erase(payload: AccountPayload, ctx: JobContext) -> dict[str, Any]:
    """Delete the mail of a mailbox that is still disconnected."""
    mailbox_of_firm = payload.account_id, payload.tenant_id
    counted = ctx.step("count", count_mail, *mailbox_of_firm)
    return erase_mail(*mailbox_of_firm, counted=counted)


@job(
    "reauth.notify",
    category=Category.NOTIFICATIONS,
    payload=AccountPayload,
    idempotency_key=lambda payload: f"reauth.notify:{payload.account_id}",
)
def notify_reauth(payload: AccountPayload, ctx: JobContext) -> dict[str, Any]:
    """Send the e-mail, unless the mailbox is connected again meanwhile."""
    return {"recipients": send_reauth_notice(ctx, payload.account_id)}
