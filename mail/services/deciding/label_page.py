"""Puts first labels on a page of messages, with one request to Gmail for each label.

The actions come from `classify_page`: each adds a category's label to a message whose thread has
none. No thread is locked; a verdict that comes meanwhile waits until the page is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.db.models.functions import Now

from mail.gmail import units
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailBadRequest, GmailConflict, GmailNotFound
from mail.models import (
    MAX_ERROR_LENGTH,
    UNFINISHED,
    Action,
    ActionStatus,
    ActionType,
    EventType,
    MailAccount,
    Message,
)
from mail.services.actions.label_changes import UNSTORED, LabelChange, undo_hint
from mail.services.mailboxes.modes import SUGGESTS_ONLY, suggests_only
from mail.services.operation import locked_ids
from mail.services.queueing import enqueue_action
from mail.services.syncing.labels import ensure_label
from mail.services.syncing.mirror import cursor_of
from mail.services.timelines.events import record_events
from tenants.scope import firm_scope


def label_page(
    account: MailAccount, gmail: GmailClient, action_ids: Sequence[UUID], *, job_id: UUID
) -> dict[str, Any]:
    """Execute the actions for this job, and return the job's result; safe to repeat.

    If Gmail refuses a label, each of its actions gets an `action.gmail` job of its own.

    Raises:
        MailboxWaits: the mailbox is paused.
        GmailError: Gmail did not do it; the actions that are left stay executing.
    """
    if suggests_only(account):
        return {"skipped": True, "reason": SUGGESTS_ONLY}
    with firm_scope(account.firm_id):
        cursor = cursor_of(account)
        actions = _start(account, action_ids, job_id)
    by_label: dict[str, list[Action]] = defaultdict(list)
    for action in actions:
        by_label[action.parameters["label"]].append(action)
    labelled = 0
    for label, group in sorted(by_label.items()):
        try:
            label_id = ensure_label(account, gmail, label)
            done = _apply(gmail, group, label_id)
        except (GmailBadRequest, GmailConflict):
            _hand_over(account, group)
            continue
        _complete(account, done, label_id, cursor)
        labelled += len(done)
        if len(done) < len(group):
            kept = {action.pk for action in done}
            _cancel(account, [action for action in group if action.pk not in kept])
    return {"labelled": labelled}


def fail_actions(firm_id: int, action_ids: Sequence[UUID], job_id: UUID, error: str) -> None:
    """Mark the job's unfinished actions failed, for good. `error` holds no mail text."""
    with firm_scope(firm_id):
        unended = Action.objects.filter(pk__in=action_ids, status__in=UNFINISHED)
        rows = Action.objects.filter(pk__in=locked_ids(unended))
        unfinished = list(rows.select_related("account", "message").defer("message__html"))
        rows.update(status=ActionStatus.FAILED, job_id=job_id, error=error[:MAX_ERROR_LENGTH])
        if unfinished:
            about = [(action.message, _detail(action)) for action in unfinished]
            record_events(EventType.ACTION_FAILED, unfinished[0].account, about)


def _start(account: MailAccount, action_ids: Sequence[UUID], job_id: UUID) -> list[Action]:
    """Mark the queued actions executing; return them and those that an earlier attempt left."""
    rows = Action.objects.filter(account=account, pk__in=action_ids)
    queued = locked_ids(rows.filter(status=ActionStatus.QUEUED))
    rows.filter(pk__in=queued).update(status=ActionStatus.EXECUTING, job_id=job_id)
    own = rows.filter(status=ActionStatus.EXECUTING, job_id=job_id)
    columns = ("message__gmail_message_id", "message__thread_id", "message__labels")
    started = list(
        own.select_related("message").only(
            "firm", "account", "action_type", "parameters", "pre_image", "job_id", *columns
        )
    )
    new = [action for action in started if action.pre_image is None]
    for action in new:
        action.pre_image = {"labels": action.message.labels}
    Action.objects.bulk_update(new, ["pre_image"])
    return started


def _apply(gmail: GmailClient, actions: Sequence[Action], label_id: str) -> Sequence[Action]:
    """Put the label on the messages; return the actions whose messages are still in Gmail.

    For a batch Gmail does not say which messages are gone; the next sync deletes them here.
    """
    if len(actions) * units.MODIFY >= units.BATCH_MODIFY:
        gmail.batch_modify([one.message.gmail_message_id for one in actions], add=[label_id])
        return actions
    done = []
    for action in actions:
        try:
            gmail.modify_message(action.message.gmail_message_id, add=[label_id])
        except GmailNotFound:
            continue
        done.append(action)
    return done


def _complete(
    account: MailAccount, actions: Iterable[Action], label_id: str, cursor: int | None
) -> None:
    """Mark the actions completed; label their messages unless a sync has moved the cursor."""
    by_id = {action.pk: action for action in actions}
    change = LabelChange(add=frozenset({label_id}))
    with firm_scope(account.firm_id):
        unmoved = cursor_of(account, lock=True) == cursor
        # An action that was canceled while Gmail was asked has put its label on all the same.
        written = (ActionStatus.EXECUTING, ActionStatus.CANCELED)
        ours = Action.objects.filter(pk__in=by_id, status__in=written)
        locked = ours.select_for_update(of=("self",), no_key=True).order_by("pk")
        finished, about = [], []
        for pk, labels in locked.values_list("pk", "message__labels"):
            action = by_id[pk]
            before = (action.pre_image or {}).get("labels", [])
            after = sorted({*before, label_id})
            action.undo_hint = undo_hint(
                ActionType(action.action_type), before, after, change, history_id=cursor
            )
            if not unmoved:
                action.undo_hint[UNSTORED] = True
            action.status = ActionStatus.COMPLETED
            action.message.labels = sorted({*labels, label_id})
            added = sorted(set(after) - set(before))
            about.append((action.message, _detail(action, labels_added=added, labels_removed=[])))
            finished.append(action)
        Action.objects.bulk_update(finished, ["undo_hint", "status"])
        Action.objects.filter(pk__in=[one.pk for one in finished]).update(executed_at=Now())
        if unmoved:
            Message.objects.bulk_update([one.message for one in finished], ["labels"])
        record_events(EventType.ACTION_COMPLETED, account, about)


def _hand_over(account: MailAccount, actions: Sequence[Action]) -> None:
    """Have each action executed alone, because Gmail refused the label or one of the messages."""
    with firm_scope(account.firm_id):
        _still(actions, ActionStatus.EXECUTING).update(
            status=ActionStatus.QUEUED, job_id=None, pre_image=None
        )
        for action in actions:
            enqueue_action(action, action.message.thread_id)


def _cancel(account: MailAccount, actions: Sequence[Action]) -> None:
    with firm_scope(account.firm_id):
        _still(actions, *UNFINISHED).update(status=ActionStatus.CANCELED)


def _still(actions: Sequence[Action], *statuses: ActionStatus) -> QuerySet[Action]:
    """Return the actions whose status is one of these, locked."""
    rows = Action.objects.filter(pk__in=[action.pk for action in actions], status__in=statuses)
    return Action.objects.filter(pk__in=locked_ids(rows))


def _detail(action: Action, **changes: list[str]) -> dict[str, Any]:
    return {"action_id": str(action.pk), "action_type": action.action_type, **changes}
