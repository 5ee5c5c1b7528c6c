"""Asks for actions and keeps their states.

queued → executing → completed | failed; queued, executing → canceled. While its job is tried again
an action stays executing; it is failed when no further attempt will be made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from mail.errors import RowGone
from mail.models import (
    MAX_ERROR_LENGTH,
    UNFINISHED,
    Action,
    ActionStatus,
    ActionType,
    Decision,
    EventType,
    MailAccount,
    Message,
    Rule,
)
from mail.services.events import record_event
from mail.services.label_changes import label_parameter, undo_hint
from mail.services.mirror import cursor_of
from mail.services.queueing import enqueue_action
from tenants.scope import firm_scope


@dataclass(frozen=True)
class Refusal:
    """Why an action is not executed now."""

    reason: str


def request_action(
    message: Message,
    action_type: ActionType,
    parameters: dict[str, Any] | None = None,
    *,
    decision: Decision | None = None,
    rule: Rule | None = None,
) -> Action:
    """Store an action on the message and enqueue its job. Must run in the firm's scope.

    Raises:
        ActionInvalid: the parameters do not fit the action.
    """
    parameters = parameters or {}
    label_parameter(action_type, parameters)
    action: Action = Action.objects.create(
        account_id=message.account_id,
        message=message,
        decision=decision,
        rule=rule,
        action_type=action_type,
        parameters=parameters,
    )
    enqueue_action(action, message.thread_id)
    return action


def find_action(account: MailAccount, action_id: UUID) -> Action:
    """Return the action with its message.

    Raises:
        RowGone: the mailbox has no such action.
    """
    with firm_scope(account.firm_id):
        found = Action.objects.select_related("message").filter(account=account, pk=action_id)
        action: Action | None = found.first()
    if action is None:
        raise RowGone(f"action {action_id} is gone, or belongs to another mailbox")
    return action


def start_action(action: Action, *, job_id: UUID, labels: list[str]) -> Refusal | None:
    """Mark the action executing for this job; say why not when it may not be executed.

    `labels` are the message's now. The first attempt's are kept, so that an attempt that repeats
    a change does not take its effect for the state before it.
    """
    action.pre_image = action.pre_image or {"labels": labels}
    with firm_scope(action.firm_id):
        started = _startable(action, job_id).update(
            status=ActionStatus.EXECUTING, job_id=job_id, error="", pre_image=action.pre_image
        )
        if not started:
            action.refresh_from_db(fields=["status"])
            return Refusal(f"The action is {action.get_status_display().lower()}")
    return None


def _startable(action: Action, job_id: UUID) -> QuerySet[Action]:
    """Queued, or left by an earlier attempt or series of the same job."""
    own = Q(status__in=[ActionStatus.EXECUTING, ActionStatus.FAILED], job_id=job_id)
    rows: QuerySet[Action] = Action.objects.filter(pk=action.pk)
    return rows.filter(Q(status=ActionStatus.QUEUED) | own)


def complete_action(
    account: MailAccount, action: Action, labels: list[str], cursor: int | None
) -> dict[str, Any]:
    """Mark the executing action completed, its message carrying `labels`; return its undo hint.

    `cursor` is the account's before Gmail was asked: where a sync has moved it since, the labels
    may be out of date, and it is that sync, or the next, which stores them.
    """
    before = (action.pre_image or {}).get("labels", [])
    hint = undo_hint(ActionType(action.action_type), before, labels)
    with firm_scope(account.firm_id):
        if cursor_of(account, lock=True) == cursor:
            Message.objects.filter(pk=action.message_id).update(labels=labels)
        Action.objects.filter(pk=action.pk, status=ActionStatus.EXECUTING).update(
            status=ActionStatus.COMPLETED, undo_hint=hint, executed_at=Now(), error=""
        )
        record_event(
            EventType.ACTION_COMPLETED,
            account,
            message=action.message,
            detail={
                "action_id": str(action.pk),
                "action_type": action.action_type,
                "labels_added": sorted(set(labels) - set(before)),
                "labels_removed": sorted(set(before) - set(labels)),
            },
        )
    return hint


def cancel_action(action: Action) -> None:
    """Cancel an unfinished action: what it is about is gone."""
    with firm_scope(action.firm_id):
        Action.objects.filter(pk=action.pk, status__in=UNFINISHED).update(
            status=ActionStatus.CANCELED
        )


def fail_action(firm_id: int, action_id: UUID, error: str) -> None:
    """Mark an unfinished action failed: nobody will try again. `error` holds no mail text."""
    with firm_scope(firm_id):
        unfinished = Action.objects.filter(pk=action_id, status__in=UNFINISHED)
        action = unfinished.select_related("account", "message").first()
        if action is None:
            return
        unfinished.update(status=ActionStatus.FAILED, error=error[:MAX_ERROR_LENGTH])
        record_event(
            EventType.ACTION_FAILED,
            action.account,
            message=action.message,
            detail={"action_id": str(action.pk), "action_type": action.action_type},
        )
