"""Executes one undo in Gmail."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from mail.errors import NotUndoable, RowGone
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailBadRequest, GmailNotFound
from mail.models import (
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    MailAccount,
    Relation,
    ThreadStatus,
)
from mail.services.actions.actions import (
    fail_action,
    find_action,
    require_order,
    start_action,
    store_labels,
)
from mail.services.actions.gmail_state import (
    INBOX,
    TRASH,
    attempt,
    changed_by_others,
    labels_of,
    read_state,
)
from mail.services.actions.label_changes import LabelChange, MessageState, changed_labels
from mail.services.actions.undo import complete_undo, open_undo, undo_of, why_not_undoable
from mail.services.mailboxes.modes import require_unpaused
from tenants.scope import firm_scope

GONE = "The message is no longer in Gmail"


def perform_undo(
    account: MailAccount, gmail: GmailClient, original_id: UUID, *, job_id: UUID
) -> dict[str, Any]:
    """Take the action back for this job, and return the job's result.

    Raises:
        RowGone: the action, or its message in Gmail, is gone.
        NotUndoable: it cannot be undone, or another job's undo counts.
        ActionWaits: an earlier action on the message is not finished.
        MailboxWaits: the mailbox is paused.
        GmailError: Gmail did not do it; the undo stays executing.
    """
    original = find_action(account, original_id)
    require_unpaused(account)
    undo = _own_undo(original, job_id)
    if undo.status == ActionStatus.COMPLETED:
        return _result(original, undo)
    require_order(undo)
    try:
        state = read_state(account, gmail, original.message.gmail_message_id)
        possible, change = _standing(gmail, original, undo, state)
        refusal = start_action(undo, state, possible, job_id=job_id)
        if refusal is not None:
            raise NotUndoable(refusal.reason)
        with attempt(undo):
            after, remade = _take_back(gmail, original, state.labels, change)
    except GmailNotFound:
        fail_action(account.firm_id, undo.pk, GONE)
        raise RowGone(GONE) from None
    with firm_scope(account.firm_id):
        stored = store_labels(account, original.message_id, after, state.cursor)
        before = set((undo.pre_image or {}).get("labels", after))
        possible |= LabelChange(add=remade)
        made = LabelChange(
            possible.add & (set(after) - before), possible.remove & (before - set(after))
        )
        kept = possible.labels - change.labels
        complete_undo(account, original, undo, made, kept, stored=stored)
        undo.refresh_from_db()
    return _result(original, undo)


def _own_undo(original: Action, job_id: UUID) -> Action:
    """Return the undo that this job owns; a job that finds none stores one."""
    with firm_scope(original.firm_id):
        undo = undo_of(original)
        if undo is None:
            undo = _failed_undo(original, job_id) or open_undo(original)
        owned = undo.job_id in (None, job_id)
        if not owned:
            raise NotUndoable(why_not_undoable(original) or "Another job undoes the action.")
        Action.objects.filter(pk=undo.pk, job_id=None).update(job_id=job_id)
        undo.job_id = job_id
    return undo


def _failed_undo(original: Action, job_id: UUID) -> Action | None:
    """Return the undo that failed before a person retried this job, and let it count again."""
    links = ActionLink.objects.filter(
        effect=original, relation=Relation.UNDO_OF, cause__job_id=job_id
    )
    link = links.select_related("cause").order_by("-pk").first()
    if link is None:
        return None
    links.filter(pk=link.pk).update(counts=True)
    failed: Action = link.cause
    return failed


def _inverse(original: Action) -> LabelChange:
    changed = changed_labels(original.undo_hint or {})
    return LabelChange(changed.remove, changed.add)


def _standing(
    gmail: GmailClient, original: Action, undo: Action, state: MessageState
) -> tuple[LabelChange, LabelChange]:
    """Return the inverse of the change, and the part of it that nobody else has overtaken."""
    wanted = _inverse(original)
    change = wanted.needed(state.labels)
    if change:
        # Moving to the trash removes the inbox label, which somebody may have put on since.
        leaves = INBOX & set(state.labels) if change.add & TRASH else frozenset()
        touched = changed_by_others(gmail, original, change.labels | leaves)
        if leaves & touched:
            touched |= TRASH
        change = change.without(touched)
    before = (undo.pre_image or {}).get("labels", state.labels)
    if TRASH & wanted.remove & set(before) and TRASH.isdisjoint(change.applied_to(state.labels)):
        missed = LabelChange(add=_missed_wake(gmail, original))
        wanted, change = wanted | missed, change | missed.needed(state.labels)
    return wanted, change


def _missed_wake(gmail: GmailClient, original: Action) -> frozenset[str]:
    """Return INBOX if the message's snooze ended while this action kept it in the trash.

    Without the action it would be back in the inbox. It stays out if the person has marked its
    thread done, or moved it in or out of the inbox since.
    """
    with firm_scope(original.firm_id):
        snoozes = Action.objects.select_related("message__thread").filter(
            message_id=original.message_id,
            action_type=ActionType.SNOOZE,
            status=ActionStatus.COMPLETED,
        )
        undone = ActionLink.objects.filter(relation=Relation.UNDO_OF, counts=True)
        last = snoozes.exclude(pk__in=undone.values("effect_id")).order_by("-pk").first()
    until = ((last and last.undo_hint) or {}).get("snooze_until")
    if last is None or last.wake_at is not None or until is None or original.executed_at is None:
        return frozenset()
    asleep = last.pk < original.pk and original.executed_at < datetime.fromisoformat(until)
    done = last.message.thread.status == ThreadStatus.ARCHIVED
    return frozenset() if not asleep or done or changed_by_others(gmail, last, INBOX) else INBOX


def _take_back(
    gmail: GmailClient, original: Action, labels: list[str], change: LabelChange
) -> tuple[list[str], frozenset[str]]:
    """Make the change; return the labels after it, and any that replace a deleted label."""
    message_id = original.message.gmail_message_id
    if change.add & TRASH:
        labels = labels_of(gmail.trash(message_id))
    elif change.remove & TRASH:
        labels = labels_of(gmail.untrash(message_id))
    rest = LabelChange(change.add - TRASH, change.remove - TRASH).needed(labels)
    if not rest:
        return labels, frozenset()
    try:
        return _modify(gmail, message_id, rest), frozenset()
    except GmailBadRequest:
        # A label was deleted since; only another of the same name can be put on instead.
        listed = {label["id"]: label["name"] for label in gmail.list_labels()}
        remade = _of_same_name(original, listed) if rest.add - listed.keys() else frozenset()
        rest = LabelChange(rest.add & listed.keys() | remade, rest.remove & listed.keys())
        return _modify(gmail, message_id, rest.needed(labels)), remade


def _of_same_name(original: Action, listed: Mapping[str, str]) -> frozenset[str]:
    """Return the label with the name of the one that the action removed."""
    if original.action_type != ActionType.REMOVE_LABEL:
        return frozenset()
    name = str(original.parameters.get("label", "")).casefold()
    return frozenset(one for one, its_name in listed.items() if its_name.casefold() == name)


def _modify(gmail: GmailClient, message_id: str, change: LabelChange) -> list[str]:
    if not change:
        return labels_of(gmail.get_message(message_id, fmt="minimal"))
    return labels_of(gmail.modify_message(message_id, list(change.add), list(change.remove)))


def _result(original: Action, undo: Action) -> dict[str, Any]:
    hint = undo.undo_hint or {}
    changed = changed_labels(hint)
    return {
        "action_id": str(undo.pk),
        "original_action_id": str(original.pk),
        "changed": bool(changed),
        "kept": hint.get("kept", []),
    }
