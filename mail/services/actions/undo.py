"""Takes back what an action changed, as far as the change still stands.

Labels that somebody changed since, in Gmail or by a later action, are left as they are. An undo is
an action of its own, which a link ties to the one it takes back. At most one such link counts.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from jobs.errors import UnknownJob, WrongState
from jobs.queue import cancel, enqueue
from jobs.states import Priority
from mail.errors import NotUndoable, RowGone
from mail.models import (
    UNFINISHED,
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    EventType,
    MailAccount,
    Relation,
)
from mail.services.actions.actions import (
    fail_action,
)
from mail.services.actions.label_changes import UNSTORED, LabelChange
from mail.services.actions.snooze import reinstate_earlier
from mail.services.mailboxes.connection import why_not_used
from mail.services.operation import audit
from mail.services.queueing import note_job, thread_lock
from mail.services.timelines.events import record_event
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope


def why_not_undoable(action: Action) -> str:
    """Return why the action cannot be undone now, empty where it can. Must run in the firm's scope."""
    undo = undo_of(action)
    return why_not_undoable_with(action, undo.status if undo else None)


def snoozed_again() -> Exists:
    """Return whether a query's snooze was followed by another. Must run in the firm's scope."""
    return Exists(_later_snoozes(OuterRef("pk")))


def why_not_undoable_with(
    action: Action, undo_status: str | None, *, again: bool | None = None
) -> str:
    """Return why the action cannot be undone, given the status of its undo that counts, if any.

    `again` is the result of `snoozed_again`; if it is None, the database is asked.
    """
    hint = action.undo_hint or {}
    if action.action_type == ActionType.UNDO:
        return "An undo cannot be undone; ask for the action itself."
    if action.status != ActionStatus.COMPLETED:
        return (
            "Only a completed action can be undone: this one is "
            f"{action.get_status_display().lower()}."
        )
    if hint.get("irreversible"):
        return str(hint.get("why") or "The action cannot be undone.")
    if undo_status is not None:
        done = undo_status == ActionStatus.COMPLETED
        return "The action is undone already." if done else "The action is being undone."
    if obstacle := why_not_used(action.account):
        return obstacle
    if action.action_type != ActionType.SNOOZE:
        return ""
    if again is None:
        again = _later_snoozes(action).exists()
    return "The message was snoozed again; undo the newer snooze first." if again else ""


def _later_snoozes(action: Action | OuterRef) -> QuerySet[Action]:
    rows: QuerySet[Action] = Action.objects.filter(
        links_as_cause__effect=action,
        links_as_cause__relation=Relation.RELATED,
        action_type=ActionType.SNOOZE,
        wake_at__isnull=False,
    )
    return rows


def undo_of(action: Action) -> Action | None:
    """Return the one undo of the action that counts, None if there is none."""
    links = ActionLink.objects.filter(effect=action, relation=Relation.UNDO_OF, counts=True)
    link = links.select_related("cause").first()
    return link.cause if link else None


def request_undo(action: Action, *, by: Actor = SERVICE, reason: str = "") -> Action:
    """Ask for the action to be taken back, and return the undo.

    The undo of an action that changed nothing is completed at once.

    Raises:
        NotUndoable: the action is not completed, irreversible, or has an undo.
        RowGone: its message was deleted meanwhile.
    """
    # The caller's scope may be wider: whoever sees several firms undoes in the action's.
    with firm_scope(action.firm_id):
        return _request_undo(action, by, reason)


def _request_undo(action: Action, by: Actor, reason: str) -> Action:
    try:
        # Locked, because its message may be deleted at the same moment.
        action.refresh_from_db(from_queryset=Action.objects.select_for_update(no_key=True))
    except Action.DoesNotExist:
        raise RowGone("The action is gone, with its message.") from None
    undo = open_undo(action)
    detail = {"action_id": str(action.pk), "undo_id": str(undo.pk)}
    record_event(EventType.UNDO_REQUESTED, action.account, message=action.message, detail=detail)
    audit(
        "action.undo",
        action,
        by,
        reason,
        after={"undo_id": str(undo.pk), "action_type": action.action_type},
    )
    if _changed_nothing(action):
        Action.objects.filter(pk=undo.pk).update(status=ActionStatus.EXECUTING)
        complete_undo(action.account, action, undo, LabelChange(), frozenset(), stored=True)
        undo.refresh_from_db()
    else:
        _enqueue(undo, action.pk, action.message.thread_id)
    return undo


def _enqueue(undo: Action, original_id: UUID, thread_id: UUID) -> None:
    result = enqueue(
        "undo.action",
        {"account_id": undo.account_id, "original_action_id": original_id},
        priority=Priority.HIGH,
        lock_key=thread_lock(thread_id),
    )
    note_job(undo, result)


def _changed_nothing(action: Action) -> bool:
    return (action.undo_hint or {}).get("inverse_action") == "none"


def open_undo(action: Action) -> Action:
    """Store an undo of the action, with the link that counts.

    Raises:
        NotUndoable: the action cannot be undone, or another undo was stored at the same time.
    """
    obstacle = why_not_undoable(action)
    if obstacle:
        raise NotUndoable(obstacle)
    try:
        with transaction.atomic():
            undo: Action = Action.objects.create(
                firm_id=action.firm_id,
                account_id=action.account_id,
                message_id=action.message_id,
                action_type=ActionType.UNDO,
            )
            ActionLink.objects.create(
                firm_id=action.firm_id, cause=undo, effect=action, relation=Relation.UNDO_OF
            )
    except IntegrityError:
        raise NotUndoable("The action is being undone.") from None
    return undo


def complete_undo(
    account: MailAccount,
    original: Action,
    undo: Action,
    made: LabelChange,
    kept: frozenset[str],
    *,
    stored: bool,
) -> None:
    """Complete the undo; `stored`: whether the message's row has the change. Must run in scope."""
    added, removed = sorted(made.add), sorted(made.remove)
    hint = {
        "action": ActionType.UNDO.value,
        "inverse_action": "none",
        "changed": {"added": added, "removed": removed},
        "kept": sorted(kept - made.labels),
        "history_id": (undo.undo_hint or {}).get("history_id"),
        **({} if stored else {UNSTORED: True}),
    }
    done = Action.objects.filter(pk=undo.pk, status=ActionStatus.EXECUTING).update(
        status=ActionStatus.COMPLETED, undo_hint=hint, executed_at=Now(), error=""
    )
    if not done:
        return
    if original.action_type == ActionType.SNOOZE:
        _end_snooze(original)
    record_event(
        EventType.ACTION_UNDONE,
        account,
        message=original.message,
        detail={
            "action_id": str(original.pk),
            "action_type": original.action_type,
            "undo_id": str(undo.pk),
            "labels_added": added,
            "labels_removed": removed,
        },
    )


def _end_snooze(original: Action) -> None:
    current = Action.objects.filter(pk=original.pk, wake_at__isnull=False)
    if not current.update(wake_at=None):
        return
    job_id = (original.undo_hint or {}).get("unsnooze_job_id")
    if job_id:
        # The job may be over, or pruned. One that still runs finds `wake_at` empty.
        with suppress(WrongState, UnknownJob):
            cancel(job_id, reason="The snooze was undone")
    reinstate_earlier(original)


def fail_undo(firm_id: int, original_id: UUID, job_id: UUID, error: str) -> None:
    """Mark the job's undo failed, so that another can be asked for."""
    with firm_scope(firm_id):
        own = Action.objects.filter(
            job_id=job_id,
            status__in=UNFINISHED,
            links_as_cause__effect_id=original_id,
            links_as_cause__relation=Relation.UNDO_OF,
        )
        failed = list(own.values_list("pk", flat=True))
    for undo_id in failed:
        fail_action(firm_id, undo_id, error)
