"""`apply_rule`: does a rule's actions on mail that came before the rule, one page per job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.states import Category
from mail.job_handlers.base import GMAIL_RETRY, AccountPayload, mailbox, mailbox_key
from mail.services.rules.backlog import MAX_DAYS, apply_page


class RulePayload(AccountPayload):
    """A rule by its id; `before` is the message that the page before ended with."""

    rule_id: UUID
    days: int = Field(ge=1, le=MAX_DAYS)
    before: UUID | None = None


@job(
    "apply_rule",
    category=Category.ORCHESTRATION,
    payload=RulePayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    idempotency_key=lambda p: f"apply_rule:{p.account_id}:{p.rule_id}:{p.before}",
)
def apply_rule(payload: RulePayload, _: JobContext) -> dict[str, Any]:
    """Request the rule's actions on one page of the mailbox's mail."""
    with mailbox(payload) as (account, _gmail):
        return apply_page(account, payload.rule_id, days=payload.days, before=payload.before)
