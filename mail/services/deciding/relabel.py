"""Gives a thread the label of its category, in place of the one it had."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobs.models import JobQueue
from jobs.states import LIVE
from mail.errors import MailboxWaits
from mail.labels import LABEL_NAMES
from mail.llm.base import Category
from mail.models import (
    UNFINISHED,
    Action,
    ActionStatus,
    ActionType,
    Decision,
    MailLabel,
    Message,
)
from mail.services.actions.actions import request_action
from mail.services.actions.types import LABEL_ACTIONS

CategoryLabel = tuple[UUID, Category]
"""A message and the category whose label it carries."""

# When a verdict is tried again that came while the thread's first label was put on.
LABELLING_SECONDS = 2.0

_NAMES = {category: LABEL_NAMES[category.label] for category in Category}
_CATEGORIES = {name: category for category, name in _NAMES.items()}


def label_name(category: Category) -> str:
    """Return the name of the label that shows a category."""
    return _NAMES[category]


def relabel_thread(decision: Decision, messages: Sequence[Message]) -> None:
    """Request the changes that make the decision's category label the thread's only one.

    `messages` are the thread's. The label goes to the message decided on; every category label
    elsewhere goes. Must run in the firm's scope and under the thread's lock.
    """
    by_id = {message.pk: message for message in messages}
    wanted: CategoryLabel = (decision.message_id, Category(decision.category))
    carried = _carried(decision.account_id, messages)
    interrupted = _cancel_unfinished(list(by_id))
    # What an interrupted action did to Gmail is unknown: undo it, or do it again.
    removed = {_subject(action) for action in interrupted if _removes(action)}
    applied = {_subject(action) for action in interrupted if not _removes(action)}
    for message_id, category in sorted((carried | applied) - {wanted}):
        _request(ActionType.REMOVE_LABEL, by_id[message_id], category, decision)
    if wanted not in carried - removed:
        _request(ActionType.APPLY_LABEL, by_id[decision.message_id], wanted[1], decision)


def _carried(account_id: UUID, messages: Sequence[Message]) -> set[CategoryLabel]:
    own = MailLabel.objects.filter(account_id=account_id, key__in=list(Category))
    categories = {label.gmail_label_id: Category(label.key) for label in own}
    return {
        (message.pk, categories[label_id])
        for message in messages
        for label_id in message.labels
        if label_id in categories
    }


def _cancel_unfinished(message_ids: list[UUID]) -> list[Action]:
    """Cancel the category label changes under way; return those that may have had an effect.

    Raises:
        MailboxWaits: a page of labels is under way, which holds no thread's lock.
    """
    rows = Action.objects.filter(
        message_id__in=message_ids,
        status__in=UNFINISHED,
        action_type__in=LABEL_ACTIONS,
        parameters__label__in=list(_CATEGORIES),
    )
    interrupted = list(rows.filter(status=ActionStatus.EXECUTING))
    if _labels_pages(interrupted):
        raise MailboxWaits("The thread is being labelled", seconds=LABELLING_SECONDS)
    rows.update(status=ActionStatus.CANCELED)
    return interrupted


def _subject(action: Action) -> CategoryLabel:
    return action.message_id, _CATEGORIES[action.parameters["label"]]


def _removes(action: Action) -> bool:
    return action.action_type == ActionType.REMOVE_LABEL


def _request(
    action_type: ActionType, message: Message, category: Category, decision: Decision
) -> None:
    request_action(message, action_type, {"label": _NAMES[category]}, decision=decision)


def _labels_pages(actions: Sequence[Action]) -> bool:
    """Say whether a live job puts a page of labels on, one of these among them."""
    if not actions:
        return False
    owners = JobQueue.objects.filter(
        pk__in={action.job_id for action in actions}, job_type="label.page.gmail", status__in=LIVE
    )
    return bool(owners.exists())
