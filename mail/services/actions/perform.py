"""Executes one action in Gmail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailNotFound
from mail.models import Action, ActionStatus, ActionType, MailAccount
from mail.services.actions.actions import (
    DELETED_FOR_GOOD,
    cancel_action,
    complete_action,
    find_action,
    require_order,
    start_action,
)
from mail.services.actions.change_labels import perform_label_changes
from mail.services.actions.gmail_state import (
    attempt,
    labels_of,
    left_to_do,
    read_state,
)
from mail.services.actions.label_changes import MessageState, change_of
from mail.services.actions.snooze import perform_snooze
from mail.services.actions.types import (
    LABEL_CHANGES,
    DeleteParameters,
    LabelParameters,
    Parameters,
    SnoozeParameters,
    check_parameters,
)
from mail.services.mailboxes.credentials import may_delete_for_good
from mail.services.mailboxes.modes import SUGGESTS_ONLY, suggests_only
from mail.services.sending.sending_actions import SENDING, request_message
from mail.services.syncing.labels import find_label
from tenants.scope import firm_scope

MESSAGE_GONE = "The message is no longer in Gmail"


def perform_action(
    account: MailAccount, gmail: GmailClient, action_id: UUID, *, job_id: UUID
) -> dict[str, Any]:
    """Execute the action for this job, and return the job's result.

    It is safe to repeat, because label writes are, and the state before the first attempt is kept.
    Label changes that wait in the same thread are made together with this action.

    Raises:
        RowGone: the mailbox has no such action.
        ActionInvalid: its parameters cannot be used.
        ActionWaits: an earlier action on the message is not finished.
        MailboxWaits: the mailbox is paused.
        GmailError: Gmail did not do it; the action stays executing.
    """
    action = find_action(account, action_id)
    try:
        if suggests_only(account):
            return _stop(account, gmail, action)
        return _perform(account, gmail, action, job_id=job_id)
    except GmailNotFound:
        # The person deleted the message; the next sync deletes it here.
        cancel_action(action, MESSAGE_GONE)
        return {"skipped": True, "reason": MESSAGE_GONE}


def _stop(account: MailAccount, gmail: GmailClient, action: Action) -> dict[str, Any]:
    """Cancel the action, as nothing may be written; complete it if Gmail has its change already."""
    cancel_action(action, SUGGESTS_ONLY)
    stopped = {"skipped": True, "reason": SUGGESTS_ONLY}
    action_type = ActionType(action.action_type)
    if action.pre_image is None or action_type not in LABEL_CHANGES | {ActionType.TRASH}:
        return stopped
    parameters = check_parameters(action_type, action.parameters)
    label_id = None
    if isinstance(parameters, LabelParameters):
        label_id = find_label(account, gmail, parameters.label)
    change = change_of(action_type, label_id)
    state = read_state(account, gmail, action.message.gmail_message_id)
    if change.needed(state.labels):
        return stopped
    complete_action(account, action, state.labels, state.cursor, change)
    return {"action_id": str(action.pk), "reason": SUGGESTS_ONLY}


def _perform(
    account: MailAccount, gmail: GmailClient, action: Action, *, job_id: UUID
) -> dict[str, Any]:
    action_type = ActionType(action.action_type)
    parameters = check_parameters(action_type, action.parameters, requested_at=action.created_at)
    if action_type in LABEL_CHANGES:
        return perform_label_changes(account, gmail, action, job_id=job_id)
    require_order(action)
    if action_type in SENDING:
        return _send(action, parameters)
    if isinstance(parameters, SnoozeParameters):
        return perform_snooze(account, gmail, action, parameters, job_id=job_id)
    if isinstance(parameters, DeleteParameters) and parameters.permanently:
        with firm_scope(account.firm_id):
            for_good = may_delete_for_good(account)
        if for_good:
            return _delete_for_good(account, gmail, action, job_id=job_id)
    return _move(account, gmail, action, job_id=job_id)


def _send(action: Action, parameters: Parameters) -> dict[str, Any]:
    """Have the action's message sent, by a job of its own."""
    with firm_scope(action.firm_id):
        if action.status == ActionStatus.QUEUED:
            request_message(action, parameters, needs_approval=False)
    if action.status == ActionStatus.EXECUTING:
        return {"action_id": str(action.pk), "outbound_job_id": str(action.job_id)}
    return {"skipped": True, "reason": f"The action is {action.get_status_display().lower()}"}


def _move(
    account: MailAccount, gmail: GmailClient, action: Action, *, job_id: UUID
) -> dict[str, Any]:
    """Move the message into the trash or out of it."""
    state = read_state(account, gmail, action.message.gmail_message_id)
    possible = change_of(ActionType(action.action_type))
    left = left_to_do(gmail, action, state, possible)
    if "TRASH" not in left.labels:
        possible = left
    refusal = start_action(action, state, possible, job_id=job_id)
    if refusal is not None:
        return {"skipped": True, "reason": refusal.reason}
    after = state.labels
    wanted = action.action_type != ActionType.RESTORE
    if "TRASH" in possible.needed(after).labels:
        call = gmail.trash if wanted else gmail.untrash
        with attempt(action):
            after = labels_of(call(action.message.gmail_message_id))
    hint = complete_action(account, action, after, state.cursor, possible)
    return {"action_id": str(action.pk), "changed": hint["inverse_action"] != "none"}


def _delete_for_good(
    account: MailAccount, gmail: GmailClient, action: Action, *, job_id: UUID
) -> dict[str, Any]:
    repeated = action.pre_image is not None
    possible = change_of(ActionType.DELETE)
    try:
        state = read_state(account, gmail, action.message.gmail_message_id)
    except GmailNotFound:
        if not repeated:
            raise
        # An earlier attempt deleted the message, but Gmail's answer was lost.
        state = MessageState([], None, None)
    # Without the history id, as there is no way back that would need it.
    refusal = start_action(action, replace(state, history_id=None), possible, job_id=job_id)
    if refusal is not None:
        return {"skipped": True, "reason": refusal.reason}
    if state.history_id is not None:
        with attempt(action):
            gmail.delete_message(action.message.gmail_message_id)
    hint = {
        "action": ActionType.DELETE.value,
        "inverse_action": "none",
        "irreversible": True,
        "why": DELETED_FOR_GOOD,
    }
    complete_action(account, action, [], state.cursor, possible, hint)
    return {"action_id": str(action.pk), "changed": True}
