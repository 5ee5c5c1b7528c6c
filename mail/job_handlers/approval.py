"""`approval.notify` asks people, `approvals.expire` ends what nobody answered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.registry.system_payload import SystemPayload
from jobs.retry import RetryPolicy
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.job_handlers.base import AccountPayload
from mail.services.approvals.approvals import expire_approvals
from mail.services.approvals.notice import notify_approval

EXPIRE_SECONDS = 60


class ApprovalPayload(AccountPayload):
    """A question by our id."""

    approval_id: UUID


@job(
    "approval.notify",
    category=Category.NOTIFICATIONS,
    payload=ApprovalPayload,
    retry=RetryPolicy(max_attempts=5),
    idempotency_key=lambda p: f"approval.notify:{p.account_id}:{p.approval_id}",
)
def notify(payload: ApprovalPayload, ctx: JobContext) -> dict[str, Any]:
    """Send the notices, unless it is decided meanwhile."""
    return notify_approval(ctx, payload.approval_id)


@job("approvals.expire", category=Category.MAINTENANCE, payload=SystemPayload)
def expire(_: SystemPayload, __: JobContext) -> dict[str, Any]:
    """End the questions of every firm that nobody answered in time."""
    return {"expired": expire_approvals()}


default_schedule("Expire approvals", "approvals.expire", every_seconds=lambda: EXPIRE_SECONDS)
