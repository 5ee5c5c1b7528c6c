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

from mail.errors import ActionWaits, RowGone
from mail.models import (
    MAX_ERROR_LENGTH,
    UNFINISHED,
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    Decision,
    EventType,
    MailAccount,
    Message,
    Rule,
)
from mail.rules.safety import SafetyMode, check_safety
from mail.services.actions.label_changes import UNSTORED, LabelChange, MessageState, undo_hint
from mail.services.actions.since_asked import hint_at_start, hint_when_asked, woken
from mail.services.actions.types import ACTIONS, DeleteParameters, check_parameters
from mail.services.approvals.approvals import ask_approval
from mail.services.mailboxes.credentials import may_delete_for_good
from mail.services.queueing import enqueue_action
from mail.services.sending.sending_actions import SENDING, request_message
from mail.services.syncing.mirror import cursor_of
from mail.services.timelines.events import record_event
from tenants.scope import firm_scope

# After so many seconds a job checks again whether the earlier actions on its message are finished.
ORDER_SECONDS = 5
DELETED_FOR_GOOD = "Gmail keeps nothing of a message that was deleted for good."


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
    mode: SafetyMode = SafetyMode.DEFAULT,
    confidence: float = 1.0,
    asked_by_model: bool = False,
    needs_approval: bool | None = None,
) -> Action:
    """Store an action on the message and enqueue its job. Must run in the firm's scope.

    With `needs_approval` the action has no job yet: it waits for an approval, and people are asked.
    By default the safety checks decide, without those that `mode` spares: what is dangerous or too
    unsure waits. An action whose message cannot be sent is stored as failed, with the reason.

    Raises:
        ActionInvalid: the parameters do not fit the action.
    """
    model = check_parameters(action_type, parameters or {})
    verdict = check_safety(
        action_type, confidence=confidence, asked_by_model=asked_by_model, mode=mode
    )
    waits = verdict.needs_approval if needs_approval is None else needs_approval
    action: Action = Action.objects.create(
        account_id=message.account_id,
        message=message,
        decision=decision,
        rule=rule,
        action_type=action_type,
        parameters=parameters or {},
        status=ActionStatus.APPROVED_PENDING if waits else ActionStatus.QUEUED,
        # An approval is a person's word, and newer than all that was known before it.
        undo_hint=None if waits else hint_when_asked(message, action_type),
    )
    outbound = None
    if action_type in SENDING:
        outbound = request_message(action, model, needs_approval=waits)
        if outbound is None:
            return action
    elif not waits:
        enqueue_action(action, message.thread_id)
    if waits:
        ask_approval(action=action, outbound=outbound, reasons=verdict.checks)
    return action


def irreversible_reason(
    account: MailAccount, action_type: ActionType, parameters: dict[str, Any]
) -> str:
    """Return why the action could never be undone, empty for one that can. Must run in the scope."""
    if action_type == ActionType.DELETE:
        asked = DeleteParameters.model_validate(parameters).permanently
        return DELETED_FOR_GOOD if asked and may_delete_for_good(account) else ""
    return ACTIONS[action_type].irreversible if action_type in ACTIONS else ""


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


def earlier_actions(action: Action) -> QuerySet[Action]:
    """Return the message's unfinished actions that were asked for earlier and have a job."""
    rows: QuerySet[Action] = Action.objects.filter(
        message_id=action.message_id, status__in=UNFINISHED, pk__lt=action.pk, job_id__isnull=False
    )
    return rows


def require_order(action: Action) -> None:
    """Make sure that all earlier actions on the message are finished.

    Raises:
        ActionWaits: an earlier action is not finished.
    """
    with firm_scope(action.firm_id):
        if earlier_actions(action).exists():
            raise ActionWaits("An earlier action on the message comes first", seconds=ORDER_SECONDS)


def start_action(
    action: Action, state: MessageState, possible: LabelChange, *, job_id: UUID | None
) -> Refusal | None:
    """Mark the action executing for this job; return the reason if it may not be executed.

    `state` is the message's now, `possible` is what the action may change. Labels that an earlier
    attempt may have changed are kept as they were before that attempt. If `job_id` is None, the
    action keeps the job it has.
    """
    _keep_pre_image(action, state, possible)
    values: dict[str, Any] = {"pre_image": action.pre_image, "undo_hint": action.undo_hint}
    if job_id is not None:
        values["job_id"] = job_id
    with firm_scope(action.firm_id):
        started = _startable(action, job_id).update(
            status=ActionStatus.EXECUTING, error="", **values
        )
        if not started:
            action.refresh_from_db(fields=["status"])
            return Refusal(f"The action is {action.get_status_display().lower()}")
    return None


def _keep_pre_image(action: Action, state: MessageState, possible: LabelChange) -> None:
    if action.pre_image is None:
        action.pre_image = {"labels": sorted(state.labels)}
        action.undo_hint = hint_at_start(action, state.history_id)
        return
    now, before = set(state.labels), set(action.pre_image["labels"])
    in_place = possible.labels - possible.needed(now).labels
    kept = {label for label in in_place if (label in before) != (label in now)}
    action.pre_image = {"labels": sorted((now - kept) | (kept & before))}
    action.undo_hint = {**(action.undo_hint or {}), "repeated": True}


def _startable(action: Action, job_id: UUID | None) -> QuerySet[Action]:
    """Return the action if it is queued, or was left by an earlier attempt or series of its job."""
    own = Q(status__in=[ActionStatus.EXECUTING, ActionStatus.FAILED], job_id=job_id)
    rows: QuerySet[Action] = Action.objects.filter(pk=action.pk)
    return rows.filter(Q(status=ActionStatus.QUEUED) | own)


def forget_attempt(action: Action) -> None:
    """Forget the labels before a first attempt that Gmail refused, as it changed nothing.

    Those before a repeated attempt are kept, because an earlier one may have changed something.
    """
    if (action.undo_hint or {}).get("repeated"):
        return
    with firm_scope(action.firm_id):
        Action.objects.filter(pk=action.pk, status=ActionStatus.EXECUTING).update(pre_image=None)


def complete_action(
    account: MailAccount,
    action: Action,
    labels: list[str],
    cursor: int | None,
    possible: LabelChange,
    hint: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Mark the executing action completed and store its message's `labels`; return its undo hint.

    `possible` is what the action may have changed; the entries of `hint` are added to the undo hint
    or replace its own. `cursor` is the account's history cursor before Gmail was asked: if a sync
    has moved it since, `labels` may be out of date, so that sync, or the next, stores them instead.
    An action that was canceled while Gmail was asked, but changed something, is completed all the
    same, so that it can be undone.
    """
    before = (action.pre_image or {}).get("labels", [])
    history_id = (action.undo_hint or {}).get("history_id")
    action_type = ActionType(action.action_type)
    hint = {
        **undo_hint(action_type, before, labels, possible, history_id=history_id),
        **woken(action),
        **(hint or {}),
    }
    under_way = {ActionStatus.EXECUTING}
    if hint["inverse_action"] != "none" or hint.get("irreversible"):
        under_way.add(ActionStatus.CANCELED)
    with firm_scope(account.firm_id):
        executing = Action.objects.filter(pk=action.pk, status__in=under_way)
        if executing.exists() and not store_labels(account, action.message_id, labels, cursor):
            hint[UNSTORED] = True
        done = executing.update(
            status=ActionStatus.COMPLETED, undo_hint=hint, executed_at=Now(), error=""
        )
        # Otherwise another worker, which took this one for dead, has completed the action already.
        if done:
            _record_completed(account, action, hint)
    return hint


def _record_completed(account: MailAccount, action: Action, hint: dict[str, Any]) -> None:
    record_event(
        EventType.ACTION_COMPLETED,
        account,
        message=action.message,
        detail={
            "action_id": str(action.pk),
            "action_type": action.action_type,
            "labels_added": hint["changed"]["added"],
            "labels_removed": hint["changed"]["removed"],
        },
    )


def store_labels(
    account: MailAccount, message_id: UUID, labels: list[str], cursor: int | None
) -> bool:
    """Store a message's labels unless a sync has moved the cursor; say whether they are stored.

    Must run in the firm's scope.
    """
    if cursor_of(account, lock=True) != cursor:
        return False
    Message.objects.filter(pk=message_id).update(labels=labels)
    return True


def cancel_action(action: Action, why: str) -> None:
    """Cancel an unfinished action, as its message is gone or nothing may be written to Gmail."""
    with firm_scope(action.firm_id):
        Action.objects.filter(pk=action.pk, status__in=UNFINISHED).update(
            status=ActionStatus.CANCELED, error=why
        )


def fail_action(firm_id: int, action_id: UUID, error: str) -> None:
    """Mark an unfinished action failed, as it will not be tried again. `error` holds no mail text.

    A failed undo no longer counts, so that the action can be undone again.
    """
    with firm_scope(firm_id):
        unfinished = Action.objects.filter(pk=action_id, status__in=UNFINISHED)
        action = unfinished.select_related("account", "message").first()
        if action is None:
            return
        unfinished.update(status=ActionStatus.FAILED, error=error[:MAX_ERROR_LENGTH])
        if action.action_type == ActionType.UNDO:
            ActionLink.objects.filter(cause=action).update(counts=False)
        record_event(
            EventType.ACTION_FAILED,
            action.account,
            message=action.message,
            detail={"action_id": str(action.pk), "action_type": action.action_type},
        )
