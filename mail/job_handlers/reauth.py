"""`reauth.notify`: asks a person to connect a mailbox again."""

from __future__ import annotations

from typing import Any

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.job_handlers.base import AccountPayload
from mail.services.mailboxes.notices import send_reauth_notice


@job(
    "reauth.notify",
    category=Category.NOTIFICATIONS,
    payload=AccountPayload,
    idempotency_key=lambda payload: f"reauth.notify:{payload.account_id}",
)
def notify_reauth(payload: AccountPayload, ctx: JobContext) -> dict[str, Any]:
    """Send the e-mail, unless the mailbox is connected again meanwhile."""
    return {"recipients": send_reauth_notice(ctx, payload.account_id)}
