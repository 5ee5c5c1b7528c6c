"""`label.page.gmail`: puts first labels on many messages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from jobs.errors import Cancel, Fatal, HandlerError, LeaseLost, Snooze
from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.job_handlers.base import GMAIL_BREAKER, GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.services.deciding.label_page import fail_actions, label_page
from mail.services.queueing import PAGE


class LabelPagePayload(AccountPayload):
    """Actions by our ids, and what they cost in Gmail's units at most."""

    action_ids: list[UUID] = Field(min_length=1, max_length=PAGE)
    units: int = Field(ge=1)


@job(
    "label.page.gmail",
    category=Category.ORCHESTRATION,
    payload=LabelPagePayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=lambda payload: payload.units,
    breaker=GMAIL_BREAKER,
)
def label_many(payload: LabelPagePayload, ctx: JobContext) -> dict[str, Any]:
    """Execute the actions; what is not done is failed once no further attempt will be made."""
    try:
        with mailbox(payload) as (account, gmail):
            return label_page(account, gmail, payload.action_ids, job_id=ctx.job_id)
    except (Snooze, Cancel, LeaseLost):
        raise
    except Exception as error:
        if isinstance(error, Fatal) or ctx.is_last_attempt:
            # Errors that are not ours may quote mail.
            text = str(error) if isinstance(error, HandlerError) else type(error).__name__
            fail_actions(payload.tenant_id, payload.action_ids, ctx.job_id, text)
        raise
