"""`action.gmail`: executes one action."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.errors import Cancel, Fatal, HandlerError, LeaseLost, Snooze
from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.services.actions import fail_action
from mail.services.perform import perform_action


class ActionPayload(AccountPayload):
    """An action by our id. Its job is enqueued under the lock of its message's thread."""

    action_id: UUID


@job(
    "action.gmail",
    category=Category.ORCHESTRATION,
    payload=ActionPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    breaker=GMAIL_BREAKER,
    idempotency_key=lambda p: f"action.gmail:{p.account_id}:{p.action_id}",
)
def action(payload: ActionPayload, ctx: JobContext) -> dict[str, Any]:
    """Execute the action; it is failed once no further attempt will be made."""
    try:
        with mailbox(payload) as (account, gmail):
            return perform_action(account, gmail, payload.action_id, job_id=ctx.job_id)
    except (Snooze, Cancel, LeaseLost):
        raise
    except Exception as error:
        if isinstance(error, Fatal) or ctx.is_last_attempt:
            # Errors that are not ours may quote mail.
            text = str(error) if isinstance(error, HandlerError) else type(error).__name__
            fail_action(payload.tenant_id, payload.action_id, text)
        raise
