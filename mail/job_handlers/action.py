"""Jobs of actions: `action.gmail`, `undo.action`, `unsnooze.gmail`, `unsnooze.lost.gmail`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.registry.system_payload import SystemPayload
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from mail.gmail import units
from mail.job_handlers.base import (
    GMAIL_BREAKER,
    GMAIL_RETRY,
    AccountPayload,
    failing_at_last,
    mailbox,
    mailbox_key,
)
from mail.services.actions.actions import fail_action
from mail.services.actions.lost_snoozes import wake_lost
from mail.services.actions.perform import perform_action
from mail.services.actions.perform_undo import perform_undo
from mail.services.actions.sweep import sweep_actions
from mail.services.actions.undo import fail_undo
from mail.services.actions.wake import wake
from mail.services.queueing import LOST_SNOOZES_TYPE, lock_of_action
from tenants.scope import firm_scope

SWEEP_SECONDS = 60


class ActionPayload(AccountPayload):
    """An action by our id."""

    action_id: UUID


class UndoPayload(AccountPayload):
    """The action to take back, by our id."""

    original_action_id: UUID


class WakePayload(AccountPayload):
    """A snooze, and the label it put on: by default the one that snoozes put on now."""

    message_id: UUID
    action_id: UUID
    snooze_label_id: str = ""


def _lock_of(payload: AccountPayload, action_id: UUID) -> str:
    """Return the lock of the action's thread, for a caller that enqueues without a lock key."""
    with firm_scope(payload.tenant_id):
        return lock_of_action(action_id)


@job(
    "action.gmail",
    category=Category.ORCHESTRATION,
    payload=ActionPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ + units.MODIFY,
    breaker=GMAIL_BREAKER,
    lock_key=lambda p: _lock_of(p, p.action_id),
    idempotency_key=lambda p: f"action.gmail:{p.account_id}:{p.action_id}",
)
def action(payload: ActionPayload, ctx: JobContext) -> dict[str, Any]:
    """Execute the action; it is failed once no further attempt will be made."""

    def fail(error: str) -> None:
        fail_action(payload.tenant_id, payload.action_id, error)

    with failing_at_last(ctx, fail), mailbox(payload) as (account, gmail):
        return perform_action(account, gmail, payload.action_id, job_id=ctx.job_id)


@job(
    "undo.action",
    category=Category.ORCHESTRATION,
    payload=UndoPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ + units.MODIFY,
    lock_key=lambda p: _lock_of(p, p.original_action_id),
    idempotency_key=lambda p: f"undo.action:{p.account_id}:{p.original_action_id}",
)
def undo(payload: UndoPayload, ctx: JobContext) -> dict[str, Any]:
    """Take the action back as far as it still stands; a failed undo can be asked for again."""

    def fail(error: str) -> None:
        fail_undo(payload.tenant_id, payload.original_action_id, ctx.job_id, error)

    with failing_at_last(ctx, fail), mailbox(payload) as (account, gmail):
        return perform_undo(account, gmail, payload.original_action_id, job_id=ctx.job_id)


@job(
    "unsnooze.gmail",
    category=Category.ORCHESTRATION,
    payload=WakePayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ + units.MODIFY,
    lock_key=lambda p: _lock_of(p, p.action_id),
    idempotency_key=lambda p: f"unsnooze.gmail:{p.account_id}:{p.action_id}",
)
def unsnooze(payload: WakePayload, _: JobContext) -> dict[str, Any]:
    """Bring a snoozed message back to the inbox."""
    with mailbox(payload) as (account, gmail):
        return wake(account, gmail, payload.action_id, label_id=payload.snooze_label_id)


@job(
    LOST_SNOOZES_TYPE,
    category=Category.ORCHESTRATION,
    payload=AccountPayload,
    retry=GMAIL_RETRY,
    limit_key=mailbox_key,
    limit_units=units.READ + units.BATCH_MODIFY,
    breaker=GMAIL_BREAKER,
    idempotency_key=lambda payload: f"{LOST_SNOOZES_TYPE}:{payload.account_id}",
)
def unsnooze_lost(payload: AccountPayload, _: JobContext) -> dict[str, Any]:
    """Bring back the snoozed mail of which no snooze is stored any more."""
    with mailbox(payload) as (account, gmail):
        return wake_lost(account, gmail)


@job("actions.sweep", category=Category.MAINTENANCE, payload=SystemPayload)
def sweep(_: SystemPayload, __: JobContext) -> dict[str, Any]:
    """End the actions whose jobs are over, and wake what no job will wake."""
    return dict(sweep_actions())


default_schedule("Sweep mail actions", "actions.sweep", every_seconds=lambda: SWEEP_SECONDS)
