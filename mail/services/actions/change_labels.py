"""Executes label changes; those that wait in one thread together, in few requests."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q

from mail.errors import ActionInvalid, ActionWaits
from mail.gmail import units
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailBadRequest, GmailConflict, GmailNotFound
from mail.models import UNFINISHED, Action, ActionStatus, ActionType, MailAccount, Message
from mail.services.actions.actions import (
    ORDER_SECONDS,
    Refusal,
    complete_action,
    start_action,
)
from mail.services.actions.gmail_state import (
    attempt,
    labels_of,
    left_to_do,
    read_state,
    state_of,
)
from mail.services.actions.label_changes import LabelChange, MessageState, change_of
from mail.services.actions.types import LABEL_CHANGES, LabelParameters, check_parameters
from mail.services.syncing.labels import ensure_label, find_label, refresh_labels
from mail.services.syncing.mirror import cursor_of
from tenants.scope import firm_scope

# The most actions of a thread that are executed at once.
MAX_TOGETHER = 100
# A batch costs as much quota as ten single changes. `threads.modify` is cheaper, but never used: it
# also changes mail that came since the thread was read and that nobody has judged yet. Putting that
# right would take a second request, which may be lost.
BATCH_PAYS_FROM = units.BATCH_MODIFY // units.MODIFY


@dataclass(frozen=True)
class Step:
    """An action with the labels it changes."""

    action: Action
    change: LabelChange

    @property
    def gmail_message_id(self) -> str:
        """The Gmail id of the action's message."""
        return str(self.action.message.gmail_message_id)


States = dict[str, MessageState]
"""The messages of one thread as they are in Gmail, by their ids."""


def perform_label_changes(
    account: MailAccount, gmail: GmailClient, action: Action, *, job_id: UUID
) -> dict[str, Any]:
    """Execute the action and the label changes that wait in its thread; return the job's result.

    Actions on one message keep their order: those on the same label are never executed together.

    Raises:
        ActionWaits: an earlier action on the message must be executed by itself.
    """
    steps = _together(account, gmail, action)
    states = _read(account, gmail, steps)
    if action.message.gmail_message_id not in states:
        raise GmailNotFound(status=404, reason="notFound")
    started = _left(gmail, steps, states)
    for step in list(started):
        refusal = _start(step, states, job_id if step.action.pk == action.pk else None)
        if refusal is not None:
            if step.action.pk == action.pk:
                return {"skipped": True, "reason": refusal.reason}
            started.remove(step)
    try:
        after = _write(gmail, started, states)
    except GmailBadRequest:
        # Perhaps a label whose id is stored here was deleted in Gmail meanwhile.
        return _perform_alone(account, gmail, action, job_id=job_id)
    return _complete(account, action, started, states, after)


def _together(account: MailAccount, gmail: GmailClient, action: Action) -> list[Step]:
    """Return the action and those of its thread that can be executed with it, in their order."""
    steps: list[Step] = []
    labels: dict[UUID, frozenset[str]] = defaultdict(frozenset)
    blocked: set[UUID] = set()
    for row in _unfinished(action):
        own = row.pk == action.pk
        change = None
        if row.message_id not in blocked and (own or _may_join(row)):
            change = _change(account, gmail, row, own=own)
        if change is None or change.labels & labels[row.message_id]:
            blocked.add(row.message_id)
            if own:
                message = "An earlier action on the message comes first"
                raise ActionWaits(message, seconds=ORDER_SECONDS)
            continue
        labels[row.message_id] |= change.labels
        steps.append(Step(row, change))
    return steps


def _unfinished(action: Action) -> list[Action]:
    """Return the unfinished actions of the thread, in their order.

    If there are more than MAX_TOGETHER, the action and the earlier ones on its message go first.
    """
    live = Q(status__in=UNFINISHED, job_id__isnull=False)
    before = Q(message_id=action.message_id, pk__lt=action.pk) & live
    with firm_scope(action.firm_id):
        rows = Action.objects.select_related("message__thread").order_by("pk")
        own = list(rows.filter(before | Q(pk=action.pk)))
        others = rows.filter(live, message__thread_id=action.message.thread_id)
        others = others.exclude(pk__in=[row.pk for row in own])
        found = own + list(others[: max(MAX_TOGETHER - len(own), 0)])
    return sorted(found, key=lambda row: row.pk)


def _may_join(row: Action) -> bool:
    return row.status == ActionStatus.QUEUED and row.action_type in LABEL_CHANGES


def _change(
    account: MailAccount, gmail: GmailClient, action: Action, *, own: bool
) -> LabelChange | None:
    """Return what the action changes; None for a bad one that joined: its own job fails it.

    Gmail may refuse to make its label: for its name, or because the mailbox has too many.
    """
    try:
        return _resolved(account, gmail, action)
    except (ActionInvalid, GmailBadRequest, GmailConflict):
        if own:
            raise
        return None


def _resolved(account: MailAccount, gmail: GmailClient, action: Action) -> LabelChange:
    action_type = ActionType(action.action_type)
    label_id = None
    parameters = check_parameters(action_type, action.parameters)
    if isinstance(parameters, LabelParameters):
        find = ensure_label if action_type == ActionType.APPLY_LABEL else find_label
        label_id = find(account, gmail, parameters.label)
    return change_of(action_type, label_id)


def _read(account: MailAccount, gmail: GmailClient, steps: list[Step]) -> States:
    wanted = {step.gmail_message_id for step in steps}
    if len(steps) == 1 and (stored := _stored_state(steps[0])) is not None:
        return {steps[0].gmail_message_id: stored}
    if len(wanted) == 1:
        return {only: read_state(account, gmail, only) for only in wanted}
    with firm_scope(account.firm_id):
        cursor = cursor_of(account)
    thread = gmail.get_thread(steps[0].action.message.thread.gmail_thread_id, fmt="minimal")
    messages = {message["id"]: message for message in thread["messages"]}
    return {one: state_of(messages[one], cursor) for one in wanted & messages.keys()}


def _stored_state(step: Step) -> MessageState | None:
    """Return the message as it is stored, if that suffices: for the label of a first verdict.

    A label that the message does not carry can be added whatever else has changed since the last
    sync, and Gmail's answer names all its labels. None if Gmail has to be asked first.
    """
    action = step.action
    first = action.pre_image is None and action.decision_id is not None
    if not first or action.action_type != ActionType.APPLY_LABEL:
        return None
    with firm_scope(action.firm_id):
        ((labels, cursor),) = Message.objects.filter(pk=action.message_id).values_list(
            "labels", "account__history_cursor"
        )
    if cursor is None or not step.change.labels.isdisjoint(labels):
        return None
    return MessageState(sorted(labels), cursor, cursor)


def _left(gmail: GmailClient, steps: list[Step], states: States) -> list[Step]:
    """Return the steps whose messages Gmail still has, with what is left to do of their changes."""
    return [
        Step(step.action, left_to_do(gmail, step.action, state, step.change))
        for step in steps
        if (state := states.get(step.gmail_message_id)) is not None
    ]


def _start(step: Step, states: States, job_id: UUID | None) -> Refusal | None:
    state = states[step.gmail_message_id]
    return start_action(step.action, state, step.change, job_id=job_id)


def _write(gmail: GmailClient, steps: list[Step], states: States) -> dict[str, list[str]]:
    """Make the changes; return the labels of each message after them."""
    changes: dict[str, LabelChange] = defaultdict(LabelChange)
    for step in steps:
        changes[step.gmail_message_id] |= step.change
    groups: dict[LabelChange, list[str]] = defaultdict(list)
    after: dict[str, list[str]] = {}
    for message_id, change in changes.items():
        labels = states[message_id].labels
        after[message_id] = change.applied_to(labels)
        groups[change.needed(labels)].append(message_id)
    groups.pop(LabelChange(), None)
    for change, message_ids in groups.items():
        if len(message_ids) >= BATCH_PAYS_FROM:
            with attempt(*_of(steps, message_ids)):
                gmail.batch_modify(message_ids, list(change.add), list(change.remove))
        else:
            for message_id in message_ids:
                with attempt(*_of(steps, [message_id])):
                    answer = gmail.modify_message(message_id, list(change.add), list(change.remove))
                after[message_id] = labels_of(answer)
    return after


def _of(steps: list[Step], message_ids: list[str]) -> list[Action]:
    return [step.action for step in steps if step.gmail_message_id in message_ids]


def _perform_alone(
    account: MailAccount, gmail: GmailClient, action: Action, *, job_id: UUID
) -> dict[str, Any]:
    """Execute the action by itself, after reading the mailbox's labels from Gmail anew."""
    refresh_labels(account, gmail)
    step = Step(action, _resolved(account, gmail, action))
    states = {step.gmail_message_id: read_state(account, gmail, step.gmail_message_id)}
    (step,) = _left(gmail, [step], states)
    refusal = _start(step, states, job_id)
    if refusal is not None:
        return {"skipped": True, "reason": refusal.reason}
    return _complete(account, action, [step], states, _write(gmail, [step], states))


def _complete(
    account: MailAccount,
    action: Action,
    steps: list[Step],
    states: States,
    after: dict[str, list[str]],
) -> dict[str, Any]:
    result: dict[str, Any] = {"action_id": str(action.pk)}
    for step in steps:
        message_id = step.gmail_message_id
        cursor = states[message_id].cursor
        hint = complete_action(account, step.action, after[message_id], cursor, step.change)
        if step.action.pk == action.pk:
            result["changed"] = hint["inverse_action"] != "none"
    if len(steps) > 1:
        result["together"] = len(steps)
    return result
