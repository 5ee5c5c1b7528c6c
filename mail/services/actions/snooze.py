"""Takes a message out of the inbox for a time.

The job that wakes the message is stored before Gmail is asked to hide it: so the message may come
back late, but is never lost. When that job runs, it checks whether the action still wants it back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from jobs.queue import EnqueueResult, enqueue
from jobs.states import Priority
from mail.conf import snooze_label
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailBadRequest
from mail.models import (
    UNFINISHED,
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    MailAccount,
    Message,
    Relation,
)
from mail.services.actions.actions import (
    Refusal,
    complete_action,
    request_action,
    start_action,
)
from mail.services.actions.gmail_state import (
    ELSEWHERE,
    attempt,
    labels_of,
    left_to_do,
    read_state,
)
from mail.services.actions.label_changes import LabelChange, MessageState, change_of
from mail.services.actions.types import SnoozeParameters, snooze_until
from mail.services.queueing import thread_lock
from mail.services.syncing.labels import ensure_label, refresh_labels
from tenants.scope import firm_scope

WAKE_TYPE = "unsnooze.gmail"
TOO_LATE = "The snooze time is over"
THROWN_AWAY = "The message is in the trash, or among spam"


@dataclass(frozen=True)
class Hidden:
    """Until when a message is hidden, under which label, and what it was like before."""

    until: datetime
    label_id: str
    state: MessageState


def perform_snooze(
    account: MailAccount,
    gmail: GmailClient,
    action: Action,
    parameters: SnoozeParameters,
    *,
    job_id: UUID,
) -> dict[str, Any]:
    """Hide the message until its time; return the job's result.

    A message that was thrown away meanwhile is left as it is.
    """
    until = snooze_until(parameters, action.created_at)
    state = read_state(account, gmail, action.message.gmail_message_id)
    if until <= timezone.now():
        return _leave(account, action, state, TOO_LATE, job_id=job_id)
    if action.pre_image is None and ELSEWHERE & set(state.labels):
        return _leave(account, action, state, THROWN_AWAY, job_id=job_id)
    label = snooze_label()
    try:
        hidden = Hidden(until, ensure_label(account, gmail, label), state)
        return _hide(account, gmail, action, hidden, job_id)
    except GmailBadRequest:
        # Perhaps the label was deleted meanwhile.
        refresh_labels(account, gmail)
        hidden = Hidden(until, ensure_label(account, gmail, label), state)
        return _hide(account, gmail, action, hidden, job_id)


def _leave(
    account: MailAccount, action: Action, state: MessageState, why: str, *, job_id: UUID
) -> dict[str, Any]:
    """Complete the action without a change."""
    refusal = start_action(action, state, LabelChange(), job_id=job_id)
    if refusal is not None:
        return {"skipped": True, "reason": refusal.reason}
    with firm_scope(account.firm_id):
        complete_action(account, action, state.labels, state.cursor, LabelChange())
        if why == THROWN_AWAY:
            # An earlier attempt, which changed nothing, may have had it woken.
            Action.objects.filter(pk=action.pk).update(wake_at=None)
    return {"action_id": str(action.pk), "changed": False, "reason": why}


def _hide(
    account: MailAccount, gmail: GmailClient, action: Action, hidden: Hidden, job_id: UUID
) -> dict[str, Any]:
    labels = hidden.state.labels
    possible = change_of(ActionType.SNOOZE, hidden.label_id)
    possible = left_to_do(gmail, action, hidden.state, possible)
    if ELSEWHERE & set(labels):
        # An earlier attempt may have hidden it before it was thrown away: nothing more is changed.
        if hidden.label_id not in labels:
            return _leave(account, action, hidden.state, THROWN_AWAY, job_id=job_id)
        possible = possible.without(possible.needed(labels).labels)
    wake_job_id = _start(action, hidden, possible, job_id)
    if isinstance(wake_job_id, Refusal):
        return {"skipped": True, "reason": wake_job_id.reason}
    needed = possible.needed(labels)
    if needed:
        message_id = action.message.gmail_message_id
        with attempt(action):
            answer = gmail.modify_message(message_id, list(needed.add), list(needed.remove))
            labels = labels_of(answer)
    extra = {
        "snoozed": True,
        "inverse_action": "unsnooze",
        "snooze_until": hidden.until.isoformat(),
        "snooze_label": snooze_label(),
        "snooze_label_id": hidden.label_id,
        "unsnooze_job_id": str(wake_job_id),
    }
    with firm_scope(account.firm_id):
        complete_action(account, action, labels, hidden.state.cursor, possible, extra)
        _supersede(action)
    return {
        "action_id": str(action.pk),
        "changed": True,
        "until": hidden.until.isoformat(),
        "unsnooze_job_id": str(wake_job_id),
    }


def _start(action: Action, hidden: Hidden, possible: LabelChange, job_id: UUID) -> UUID | Refusal:
    """Mark the action executing and store the job that brings the message back; return its id."""
    with firm_scope(action.firm_id):
        refusal = start_action(action, hidden.state, possible, job_id=job_id)
        if refusal is not None:
            return refusal
        # `SNOOZE_LABEL` may name another label by the time this one has to be removed.
        hint = {**(action.undo_hint or {}), "snooze_label_id": hidden.label_id}
        Action.objects.filter(pk=action.pk).update(wake_at=hidden.until, undo_hint=hint)
        wake_job_id: UUID = enqueue_wake(action, hidden.label_id, hidden.until).job_id
        return wake_job_id


def _supersede(action: Action) -> None:
    """Let this snooze decide when the message comes back, in place of earlier ones."""
    earlier = Action.objects.filter(
        message_id=action.message_id, action_type=ActionType.SNOOZE, wake_at__isnull=False
    ).exclude(pk=action.pk)
    for other in list(earlier):
        ActionLink.objects.create(
            firm_id=action.firm_id, cause=action, effect=other, relation=Relation.RELATED
        )
    earlier.update(wake_at=None)


def reinstate_earlier(action: Action) -> None:
    """Let the snooze that this one superseded decide again. Must run in the firm's scope.

    If the time of that snooze is over, the message comes back at once.
    """
    earlier = Action.objects.filter(
        links_as_effect__cause=action,
        links_as_effect__relation=Relation.RELATED,
        action_type=ActionType.SNOOZE,
        status=ActionStatus.COMPLETED,
    ).exclude(
        pk__in=ActionLink.objects.filter(relation=Relation.UNDO_OF, counts=True).values("effect_id")
    )
    last = earlier.select_related("message").order_by("-pk").first()
    if last is not None and last.undo_hint:
        until = datetime.fromisoformat(last.undo_hint["snooze_until"])
        Action.objects.filter(pk=last.pk).update(wake_at=until)
        enqueue_wake(last, last.undo_hint["snooze_label_id"], max(until, timezone.now()))


def end_snoozes(messages: Collection[Message]) -> None:
    """End the snoozes of these messages: they are not brought back, and their label is removed.

    Must run in the firm's scope and under their thread's lock.
    """
    snoozes = Action.objects.filter(message__in=messages, action_type=ActionType.SNOOZE)
    # An attempt whose answer was lost may have hidden its message: it has `wake_at`, but no hint.
    asleep = list(snoozes.filter(wake_at__isnull=False).select_related("message"))
    snoozes.filter(status__in=UNFINISHED).update(status=ActionStatus.CANCELED)
    snoozes.filter(wake_at__isnull=False).update(wake_at=None)
    for action in asleep:
        label = (action.undo_hint or {}).get("snooze_label_id") or snooze_label()
        request_action(action.message, ActionType.REMOVE_LABEL, {"label": label})


def enqueue_wake(action: Action, label_id: str, at: datetime) -> EnqueueResult:
    """Have a snoozed message brought back at that time. Must run in the firm's scope."""
    return enqueue(
        WAKE_TYPE,
        {
            "account_id": action.account_id,
            "message_id": action.message_id,
            "action_id": action.pk,
            "snooze_label_id": label_id,
        },
        at=at,
        priority=Priority.NORMAL,
        lock_key=thread_lock(action.message.thread_id),
    )
