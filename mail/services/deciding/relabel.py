"""Gives a thread the label of its state, in place of the one that it had."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db.models import QuerySet

from jobs.models import JobQueue
from jobs.states import LIVE
from mail.errors import MailboxWaits
from mail.labels import LABEL_NAMES, STATE_LABELS, LabelKey
from mail.llm.base import Category
from mail.models import (
    UNFINISHED,
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    Decision,
    MailLabel,
    Message,
    Relation,
)
from mail.services.actions.actions import request_action
from mail.services.actions.label_changes import UNSTORED, changed_labels
from mail.services.actions.types import LABEL_ACTIONS

StateLabel = tuple[UUID, LabelKey]
"""A message and the label of a thread's state that it carries."""
Written = tuple[StateLabel, bool]
"""A label of a message that Mailroom put on (True) or took off (False)."""

# After how long a verdict is tried again that came while the thread's first label was put on.
LABELLING_SECONDS = 2.0

_KEYS = {LABEL_NAMES[key]: key for key in STATE_LABELS}


def label_name(category: Category) -> str:
    """Return the name of the label that shows a category."""
    return LABEL_NAMES[category.label]


def relabel_thread(decision: Decision, messages: Sequence[Message]) -> None:
    """Request the changes that make the decision's category label the thread's only one.

    As `show_state` does, with the label on the message that was judged. If the decision is too
    unsure to be shown, the thread has no label.
    """
    wanted = None
    if decision.labelled:
        wanted = (decision.message_id, Category(decision.category).label)
    show_state(decision.account_id, messages, wanted, decision=decision)


def show_state(
    account_id: UUID,
    messages: Sequence[Message],
    wanted: StateLabel | None,
    *,
    decision: Decision | None = None,
    among: Collection[LabelKey] = STATE_LABELS,
) -> None:
    """Request the changes after which this is the thread's only label of a state, or none is.

    `messages` are the thread's; labels that are not in `among` stay. Must run in the firm's scope
    and under the thread's lock.
    """
    by_id = {message.pk: message for message in messages}
    changes = _changes(by_id.keys(), among)
    interrupted = _cancel_unfinished(changes)
    # An interrupted action may or may not have changed Gmail, so its label is set in any case.
    unsure = [*map(_written, interrupted), *_last_unstored(changes)]
    removed = {label for label, is_on in unsure if not is_on}
    applied = {label for label, is_on in unsure if is_on}
    # Read after the actions, because an action that ends meanwhile has stored its labels then.
    carried = _carried(account_id, by_id.keys(), among)
    for message_id, key in sorted((carried | applied) - {wanted}):
        _request(ActionType.REMOVE_LABEL, by_id[message_id], key, decision)
    if wanted is not None and wanted not in carried - removed:
        _request(ActionType.APPLY_LABEL, by_id[wanted[0]], wanted[1], decision)


def _carried(
    account_id: UUID, message_ids: Collection[UUID], among: Collection[LabelKey]
) -> set[StateLabel]:
    own = MailLabel.objects.filter(account_id=account_id, key__in=list(among))
    keys = {label.gmail_label_id: LabelKey(label.key) for label in own}
    return {
        (message_id, keys[label_id])
        for message_id, labels in Message.objects.filter(pk__in=message_ids).values_list(
            "pk", "labels"
        )
        for label_id in labels
        if label_id in keys
    }


def _changes(message_ids: Collection[UUID], among: Collection[LabelKey]) -> QuerySet[Action]:
    """Return all changes of these labels on these messages, in any status."""
    return Action.objects.filter(
        message_id__in=message_ids,
        action_type__in=LABEL_ACTIONS,
        parameters__label__in=[LABEL_NAMES[key] for key in among],
    )


def _cancel_unfinished(changes: QuerySet[Action]) -> list[Action]:
    """Cancel the changes under way; return those that may have had an effect.

    Raises:
        MailboxWaits: a page of labels is under way, which holds no lock of the thread.
    """
    # Locked, because a job for a page of labels may start one of them at this moment.
    unfinished = list(
        changes.filter(status__in=UNFINISHED)
        .select_for_update(of=("self",), no_key=True)
        .order_by("pk")
    )
    interrupted = [action for action in unfinished if action.status == ActionStatus.EXECUTING]
    if _labels_pages(interrupted):
        raise MailboxWaits("The thread is being labelled", seconds=LABELLING_SECONDS)
    Action.objects.filter(pk__in=[action.pk for action in unfinished]).update(
        status=ActionStatus.CANCELED
    )
    return interrupted


def _last_unstored(changes: QuerySet[Action]) -> list[Written]:
    """Return the last change of each label, if only the next sync may store its effect."""
    undos = ActionLink.objects.filter(effect__in=changes, relation=Relation.UNDO_OF)
    undone = dict(undos.values_list("cause_id", "effect_id"))
    rows = changes | Action.objects.filter(pk__in=list(undone))
    done = list(rows.filter(status=ActionStatus.COMPLETED).order_by("executed_at", "pk"))
    by_id = {action.pk: action for action in done}
    last: dict[StateLabel, tuple[bool, bool]] = {}
    for action in done:
        hint = action.undo_hint or {}
        label, is_on = _written(by_id[undone.get(action.pk, action.pk)])
        if action.pk not in undone:
            last[label] = is_on, UNSTORED in hint
        elif changed_labels(hint):
            last[label] = not is_on, UNSTORED in hint
    return [(label, is_on) for label, (is_on, unstored) in last.items() if unstored]


def _written(action: Action) -> Written:
    label = action.message_id, _KEYS[action.parameters["label"]]
    return label, action.action_type == ActionType.APPLY_LABEL


def _request(
    action_type: ActionType, message: Message, key: LabelKey, decision: Decision | None
) -> None:
    request_action(message, action_type, {"label": LABEL_NAMES[key]}, decision=decision)


def _labels_pages(actions: Sequence[Action]) -> bool:
    """Say whether one of these actions belongs to a live job that labels a page."""
    if not actions:
        return False
    owners = JobQueue.objects.filter(
        pk__in={action.job_id for action in actions}, job_type="label.page.gmail", status__in=LIVE
    )
    return bool(owners.exists())
