"""Enqueues jobs for what a sync sees the person do in Gmail: labels, trash, drafts that went.

Mailroom's own writes come back in the same history. Whether Mailroom or the person gave a label is
told by the actions on its message: by the newest one before that touched the label. Mailroom ends a
draft here before it tells Gmail, and only drafts that are ready or being written are looked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

from django.db.models import F, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from mail.labels import LABEL_NAMES, LabelKey
from mail.llm.base import Category
from mail.models import (
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    Draft,
    DraftStatus,
    MailAccount,
    MailLabel,
    MailThread,
    Message,
    Relation,
)
from mail.services.actions.label_changes import changed_labels
from mail.services.deciding.requests import enqueue_order
from mail.services.drafting.requests import (
    OBEYED,
    enqueue_done,
    enqueue_manual_draft,
    enqueue_rework,
    enqueue_sent_check,
    enqueue_take_back,
    enqueue_unstored,
    enqueue_withdrawal,
)
from mail.services.timelines.threads import DISCARDING_LABELS
from tenants.scope import all_firms

# Mailroom's own label may come back in the history for so long after the last sync, or after it was
# given. Seen later, the person took it off and put it back.
ECHO: Final = timedelta(minutes=10)
ACTIONS_SEARCHED: Final = 50
# What the person orders by a label; if a thread has several, the first in this order counts.
_ORDERS: Final = (
    *(LabelKey.DONE, LabelKey.REWORK, LabelKey.NEEDS_RESPONSE),
    *(LabelKey.ACTION_REQUIRED, LabelKey.PAYMENT_REQUEST, LabelKey.WAITING, LabelKey.FYI),
)
# Mailroom takes these off when it has done what they ask for, or has come to another verdict.
_TAKEN_OFF_WHEN_DONE: Final = frozenset({LabelKey.NEEDS_RESPONSE, LabelKey.REWORK})

Gains = Mapping[str, Mapping[str, int]]
"""By Gmail's message id, the labels that the message gained, each with its history record's id."""
Losses = Mapping[str, Mapping[str, tuple[int, int]]]
"""The same for labels that it gained and lost again, each with the ids of both records."""


def follow_labels(
    account: MailAccount, gains: Gains, losses: Losses = MappingProxyType({})
) -> None:
    """Enqueue what the labels that the person gave ask for, one job a thread.

    A label that was lost again is followed, too, if Mailroom took it off before it saw the order.
    Must run in the firm's scope, after the changes are stored.
    """
    _withdraw_drafts(account, gains)
    own = MailLabel.objects.filter(account=account, key__in=list(_ORDERS))
    keys = {row.gmail_label_id: LabelKey(row.key) for row in own}
    wanted = {
        one: labels
        for one, labels in gains.items()
        if keys.keys() & (labels.keys() | losses.get(one, {}).keys())
    }
    if not wanted:
        return
    rows = Message.objects.filter(account=account, gmail_message_id__in=wanted)
    stored = {row.gmail_message_id: row for row in rows.only(
        "firm", "account", "thread", "gmail_message_id"
    )}  # fmt: skip
    actions, since = _newest_actions(account, wanted), _echoes_since(account)
    asked: dict[UUID, dict[LabelKey, Message]] = defaultdict(dict)
    unstored: dict[str, set[LabelKey]] = defaultdict(set)
    for gmail_message_id, labels in wanted.items():
        message, own_actions = stored.get(gmail_message_id), actions[gmail_message_id]
        taken_off = _taken_off(own_actions, losses.get(gmail_message_id, {}), keys)
        for label_id, record in {**labels, **taken_off}.items():
            key = keys.get(label_id)
            if key is None or _is_own(own_actions, label_id, key, record, since):
                continue
            if message is not None:
                asked[message.thread_id].setdefault(key, message)
            elif key in OBEYED:
                unstored[gmail_message_id].add(key)
    for thread_id, orders in asked.items():
        _enqueue(thread_id, orders)
    for gmail_message_id, given in unstored.items():
        enqueue_unstored(account.pk, gmail_message_id, _first(given))


def _withdraw_drafts(account: MailAccount, gains: Gains) -> None:
    """Have the drafts withdrawn that answer messages in the trash or in spam."""
    discarded = [one for one, labels in gains.items() if not DISCARDING_LABELS.isdisjoint(labels)]
    if not discarded:
        return
    drafts = Draft.objects.filter(
        account=account,
        status__in=[DraftStatus.READY, DraftStatus.WRITING],
        message__gmail_message_id__in=discarded,
    )
    for draft in drafts.only("firm", "account", "thread"):
        enqueue_withdrawal(draft)


def _first(given: Collection[LabelKey]) -> LabelKey:
    return next(key for key in _ORDERS if key in given)


def _enqueue(thread_id: UUID, orders: Mapping[LabelKey, Message]) -> None:
    order = _first(orders)
    if order == LabelKey.DONE:
        enqueue_done(MailThread.objects.get(pk=thread_id))
    elif order == LabelKey.REWORK:
        enqueue_rework(MailThread.objects.get(pk=thread_id))
    elif order == LabelKey.NEEDS_RESPONSE:
        enqueue_manual_draft(orders[order])
    else:
        enqueue_order(orders[order], Category(order.value))


def _newest_actions(
    account: MailAccount, gmail_message_ids: Collection[str]
) -> dict[str, list[Action]]:
    """Return the newest actions that wrote, or may have written, to Gmail, by Gmail's message ids.

    All firms' actions count: if another firm has the same mailbox, its labels are not the person's.
    """
    with all_firms("what Mailroom wrote to the same mailbox for another firm"):
        accounts = MailAccount.objects.filter(address=account.address)
        firm_of = dict(accounts.values_list("pk", "firm_id"))
        stored = Message.objects.filter(
            # The firms are named because the index begins with the firm.
            firm_id__in=set(firm_of.values()),
            account_id__in=list(firm_of),
            gmail_message_id__in=list(gmail_message_ids),
        )
        gmail_ids = dict(stored.values_list("pk", "gmail_message_id"))
        rows = Action.objects.filter(
            firm_id__in=set(firm_of.values()),
            message__in=list(gmail_ids),
            status__in=[ActionStatus.EXECUTING, ActionStatus.COMPLETED],
        )
        age = Window(RowNumber(), partition_by=F("message_id"), order_by=F("pk").desc())
        newest = rows.annotate(age=age).filter(age__lte=ACTIONS_SEARCHED).order_by("-pk")
        found = list(newest.only(
            *("firm", "message", "decision", "action_type"),
            *("status", "parameters", "undo_hint", "executed_at"),
        ))  # fmt: skip
        _foresee_undos(found)
    actions: dict[str, list[Action]] = defaultdict(list)
    for action in found:
        actions[gmail_ids[action.message_id]].append(action)
    return actions


def _foresee_undos(actions: Iterable[Action]) -> None:
    """Note in these objects, not in the database, what undos under way are about to change."""
    under_way = {
        action.pk: action
        for action in actions
        if (action.action_type, action.status) == (ActionType.UNDO, ActionStatus.EXECUTING)
    }
    if not under_way:
        return
    links = ActionLink.objects.filter(cause__in=list(under_way), relation=Relation.UNDO_OF)
    for link in links.select_related("effect"):
        undo, done = under_way[link.cause_id], changed_labels(link.effect.undo_hint or {})
        changed = {"added": sorted(done.remove), "removed": sorted(done.add)}
        undo.undo_hint = {**(undo.undo_hint or {}), "changed": changed}


def _echoes_since(account: MailAccount) -> datetime:
    """Return since when Mailroom's own writes may appear in this sync: just before the last one.

    `account` is as it was before this sync.
    """
    now = timezone.now()
    return min(now, account.last_sync_at or now) - ECHO


def _is_own(
    actions: Iterable[Action], label_id: str, key: LabelKey, record: int, since: datetime
) -> bool:
    """Say whether one of these actions of Mailroom's gave the label in this history record."""
    for action in actions:
        hint = action.undo_hint or {}
        if (hint.get("history_id") or 0) >= record:
            continue
        under_way, change = action.status == ActionStatus.EXECUTING, changed_labels(hint)
        if under_way and action.parameters.get("label") == LABEL_NAMES[key]:
            return bool(action.action_type == ActionType.APPLY_LABEL)
        if label_id in change.labels:
            recent = under_way or (action.executed_at and action.executed_at > since)
            return bool(label_id in change.add and recent)
    return False


def _taken_off(
    actions: Collection[Action],
    lost: Mapping[str, tuple[int, int]],
    keys: Mapping[str, LabelKey],
) -> dict[str, int]:
    """Return the labels that Mailroom took off unheeded, each with the record of its gain."""

    def unheeded(action: Action, label_id: str, gained: int, removed: int) -> bool:
        hint = action.undo_hint or {}
        if label_id not in changed_labels(hint).remove:
            return False
        by_verdict = action.decision_id is not None
        may_be_done = keys.get(label_id) in _TAKEN_OFF_WHEN_DONE and not by_verdict
        return gained <= (hint.get("history_id") or 0) < removed and not may_be_done

    return {
        label_id: records[0]
        for label_id, records in lost.items()
        if any(unheeded(action, label_id, *records) for action in actions)
    }


def follow_drafts(account: MailAccount, gmail_message_ids: Collection[str]) -> None:
    """Have drafts whose messages are gone checked: they were edited, sent or discarded.

    Must run in the firm's scope.
    """
    drafts = Draft.objects.filter(
        account=account, status=DraftStatus.READY, gmail_message_id__in=list(gmail_message_ids)
    )
    for thread_id in drafts.values_list("thread_id", flat=True):
        enqueue_sent_check(account.pk, thread_id)


def follow_deletions(messages: Collection[Message]) -> None:
    """Have the drafts withdrawn that answer these messages, whose rows are about to be deleted.

    Must run in the firm's scope.
    """
    drafts = Draft.objects.filter(
        message__in=messages, status__in=[DraftStatus.READY, DraftStatus.WRITING]
    )
    for draft in drafts.select_related("thread"):
        enqueue_take_back(draft)


def follow_all_drafts(account: MailAccount) -> None:
    """Have every ready draft checked, because the history that would tell was lost.

    Must run in the firm's scope.
    """
    drafts = Draft.objects.filter(account=account, status=DraftStatus.READY)
    for thread_id in drafts.values_list("thread_id", flat=True):
        enqueue_sent_check(account.pk, thread_id)
