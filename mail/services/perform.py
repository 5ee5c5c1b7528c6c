"""Executes one action in Gmail."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mail.gmail.answers import MessageReference
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailBadRequest, GmailNotFound
from mail.models import Action, ActionType, MailAccount
from mail.services.actions import cancel_action, complete_action, find_action, start_action
from mail.services.label_changes import change_of, label_parameter
from mail.services.labels import ensure_label, find_label, refresh_labels
from mail.services.mirror import cursor_of
from mail.services.modes import suggests_only
from tenants.scope import firm_scope


def perform_action(
    account: MailAccount, gmail: GmailClient, action_id: UUID, *, job_id: UUID
) -> dict[str, Any]:
    """Execute the action for this job, and return the job's result.

    Safe to repeat: label writes are, and the state before the first attempt is kept.

    Raises:
        RowGone: the mailbox has no such action.
        ActionInvalid: its parameters cannot be used.
        MailboxWaits: the mailbox is paused.
        GmailError: Gmail did not do it; the action stays executing.
    """
    action = find_action(account, action_id)
    if suggests_only(account):
        return {"skipped": True, "reason": "The mailbox suggests only"}
    try:
        return _perform(account, gmail, action, job_id=job_id)
    except GmailNotFound:
        # The person deleted it; the next sync deletes it here.
        cancel_action(action)
        return {"skipped": True, "reason": "The message is no longer in Gmail"}


def _perform(
    account: MailAccount, gmail: GmailClient, action: Action, *, job_id: UUID
) -> dict[str, Any]:
    label = label_parameter(ActionType(action.action_type), action.parameters)
    gmail_message_id = action.message.gmail_message_id
    with firm_scope(account.firm_id):
        cursor = cursor_of(account)
    before = _labels(gmail.get_message(gmail_message_id, fmt="minimal"))
    refusal = start_action(action, job_id=job_id, labels=before)
    if refusal is not None:
        return {"skipped": True, "reason": refusal.reason}
    try:
        after = _execute(account, gmail, action, label, before)
    except GmailBadRequest:
        if label is None:
            raise
        # Perhaps a label we know by its id was deleted meanwhile: learn the labels anew.
        refresh_labels(account, gmail)
        after = _execute(account, gmail, action, label, before)
    hint = complete_action(account, action, after, cursor)
    return {"action_id": str(action.pk), "changed": hint["inverse_action"] != "none"}


def _execute(
    account: MailAccount,
    gmail: GmailClient,
    action: Action,
    label: str | None,
    before: list[str],
) -> list[str]:
    """Make the change and return the labels the message carries now."""
    gmail_message_id = action.message.gmail_message_id
    action_type = ActionType(action.action_type)
    if action_type == ActionType.TRASH:
        return _labels(gmail.trash(gmail_message_id))
    if action_type == ActionType.RESTORE:
        return _labels(gmail.untrash(gmail_message_id))
    change = change_of(action_type, _label_id(account, gmail, action_type, label))
    if not change.add and not change.remove:
        return before
    return _labels(gmail.modify_message(gmail_message_id, add=change.add, remove=change.remove))


def _label_id(
    account: MailAccount, gmail: GmailClient, action_type: ActionType, label: str | None
) -> str | None:
    if label is None:
        return None
    if action_type == ActionType.APPLY_LABEL:
        return ensure_label(account, gmail, label)
    return find_label(account, gmail, label)


def _labels(message: MessageReference) -> list[str]:
    # Gmail leaves the field out when a message carries none.
    return sorted(message.get("labelIds", []))
