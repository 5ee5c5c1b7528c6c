"""Brings a snoozed message back to the inbox, unless the person wants it elsewhere by then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from mail.conf import snooze_label
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailBadRequest, GmailError, GmailNotFound, GmailUnavailable
from mail.models import Action, ActionStatus, EventType, MailAccount
from mail.services.actions.actions import store_labels
from mail.services.actions.gmail_state import (
    ELSEWHERE,
    INBOX,
    changed_by_others,
    labels_of,
    read_state,
)
from mail.services.actions.label_changes import LabelChange
from mail.services.actions.since_asked import WOKEN_AT
from mail.services.mailboxes.modes import require_unpaused
from mail.services.syncing.labels import find_label
from mail.services.timelines.events import record_event
from tenants.scope import firm_scope


def wake(
    account: MailAccount, gmail: GmailClient, action_id: UUID, *, label_id: str
) -> dict[str, Any]:
    """Bring a snoozed message back to the inbox; return the job's result.

    Nothing happens if the snooze was undone, ended or followed by another, or the message deleted.
    A message that the person has moved since (trash, spam, in or out of the inbox) stays there.

    Raises:
        MailboxWaits: the mailbox is paused.
        GmailError: Gmail did not do it.
    """
    with firm_scope(account.firm_id):
        found = Action.objects.select_related("message").filter(account=account, pk=action_id)
        action: Action | None = found.first()
    if action is None:
        return {"skipped": True, "reason": "The message is no longer here"}
    if action.wake_at is None:
        return {"skipped": True, "reason": "The snooze is over, undone, or replaced by a new one"}
    require_unpaused(account)
    # The label may have been deleted and made again after this job was stored.
    known = (action.undo_hint or {}).get("snooze_label_id") or label_id
    label_id = known or find_label(account, gmail, snooze_label()) or ""
    try:
        state = read_state(account, gmail, action.message.gmail_message_id)
        change = _way_back(gmail, action, state.labels, label_id)
        with _noted(action, change, state.history_id):
            gmail_id = action.message.gmail_message_id
            after = _bring_back(gmail, gmail_id, state.labels, change, label_id)
    except GmailNotFound:
        _note_awake(action)
        return {"skipped": True, "reason": "The message is no longer in Gmail"}
    # An earlier attempt, whose answer was lost, may have brought it back.
    changed = bool(change) or WOKEN_AT in (action.undo_hint or {})
    with firm_scope(account.firm_id):
        store_labels(account, action.message_id, after, state.cursor)
        # Otherwise another worker, which took this one for dead, has noted it already.
        if _note_awake(action):
            detail = {"action_id": str(action.pk), "changed": changed}
            record_event(EventType.UNSNOOZED, account, message=action.message, detail=detail)
    return {"action_id": str(action.pk), "changed": changed}


def _way_back(gmail: GmailClient, action: Action, labels: list[str], label_id: str) -> LabelChange:
    hidden = label_id in labels
    snoozed = action.status == ActionStatus.COMPLETED and (action.undo_hint or {}).get("snoozed")
    # A failed attempt may have hidden the message all the same.
    if not hidden and not snoozed:
        return LabelChange()
    change = LabelChange(INBOX, frozenset({label_id})).needed(labels)
    # A message that somebody has put into the inbox and taken out again is not wanted there.
    if change.add and (
        ELSEWHERE & set(labels) or (snoozed and changed_by_others(gmail, action, INBOX))
    ):
        return change.without(INBOX)
    return change


def _bring_back(
    gmail: GmailClient, message_id: str, labels: list[str], change: LabelChange, label_id: str
) -> list[str]:
    if not change:
        return labels
    try:
        return labels_of(gmail.modify_message(message_id, list(change.add), list(change.remove)))
    except GmailBadRequest:
        # The label was deleted since the message was read.
        if label_id not in change.remove:
            raise
    if not change.add:
        return labels_of(gmail.get_message(message_id, fmt="minimal"))
    return labels_of(gmail.modify_message(message_id, list(change.add)))


@contextmanager
def _noted(action: Action, change: LabelChange, history_id: int | None) -> Iterator[None]:
    """Store Gmail's history id before the message is put into the inbox.

    It is stored before Gmail is asked, because the answer may be lost, and forgotten if Gmail
    refuses.
    """
    if not change.add:
        yield
        return
    before = action.undo_hint or {}
    _keep_hint(action, {**before, WOKEN_AT: history_id})
    try:
        yield
    except GmailUnavailable:
        raise
    except GmailError:
        _keep_hint(action, before)
        raise


def _keep_hint(action: Action, hint: dict[str, Any]) -> None:
    with firm_scope(action.firm_id):
        Action.objects.filter(pk=action.pk, wake_at__isnull=False).update(undo_hint=hint)


def _note_awake(action: Action) -> bool:
    with firm_scope(action.firm_id):
        asleep = Action.objects.filter(pk=action.pk, wake_at__isnull=False)
        return bool(asleep.update(wake_at=None))
