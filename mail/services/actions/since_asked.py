"""What was known of a message's labels when an action was asked for, and our own changes since."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mail.models import Action, ActionStatus, ActionType, MailAccount, Message
from mail.services.actions.label_changes import LabelChange, change_of, changed_labels
from mail.services.actions.types import ACTIONS, LABEL_ACTIONS, LABEL_CHANGES
from tenants.scope import firm_scope

ASKED_AT = "asked_history_id"
# In the undo hint of a snooze: the history id before its message was put back into the inbox.
WOKEN_AT = "woken_history_id"
# The actions on Gmail's own labels, which people change by hand: they archive, read, star and throw
# away. Labels by name are Mailroom's own most of the time, and a snooze ends by itself.
OVERRULED_BY_HAND = (LABEL_CHANGES - LABEL_ACTIONS) | {
    ActionType.TRASH,
    ActionType.RESTORE,
    ActionType.DELETE,
}


# What an undo may add or remove.
GMAILS_LABELS = frozenset(
    label for declared in ACTIONS.values() for label in declared.adds | declared.removes
)


@dataclass(frozen=True)
class SeenChanges:
    """How often each label of a message was added and removed."""

    added: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)

    def count(self, label: str) -> int:
        """Return how often the label changed."""
        return self.added[label] + self.removed[label]

    def against(self, change: LabelChange, own: SeenChanges) -> set[str]:
        """Return the labels that others than `own` changed the other way than `change` does."""
        taken_off = {one for one in change.add if self.removed[one] > own.removed[one]}
        return taken_off | {one for one in change.remove if self.added[one] > own.added[one]}


def hint_when_asked(message: Message, action_type: ActionType) -> dict[str, Any] | None:
    """Return the first undo hint of an action: up to which history id its asker knew the mailbox.

    None if it is not needed, or not known. Must run in the firm's scope.
    """
    if action_type not in OVERRULED_BY_HAND:
        return None
    accounts = MailAccount.objects.filter(pk=message.account_id)
    cursor = accounts.values_list("history_cursor", flat=True).first()
    return None if cursor is None else {ASKED_AT: cursor}


def hint_at_start(action: Action, history_id: int | None) -> dict[str, Any]:
    """Return the undo hint of an action at its first attempt."""
    asked_at = (action.undo_hint or {}).get(ASKED_AT)
    known = {} if asked_at is None else {ASKED_AT: asked_at}
    return {**known, "history_id": history_id}


def woken(action: Action) -> dict[str, Any]:
    """Return what the undo hint says of the end of a snooze that was woken before it completed."""
    hint = action.undo_hint or {}
    return {WOKEN_AT: hint[WOKEN_AT]} if WOKEN_AT in hint else {}


def own_changes_since(action: Action, history_id: int) -> SeenChanges:
    """Return what other actions of ours changed after this history id, or after this was asked for.

    One that began earlier may count although its change is older, and one that has not ended well
    may have changed nothing; then a person's change may be missed.
    """
    own = SeenChanges()
    with firm_scope(action.firm_id):
        rows = Action.objects.filter(message_id=action.message_id, undo_hint__isnull=False)
        rows = rows.exclude(pk=action.pk)
        found = list(rows.only("status", "action_type", "pre_image", "undo_hint", "executed_at"))
    for row in found:
        hint = row.undo_hint or {}
        is_later = row.executed_at is not None and row.executed_at >= action.created_at
        has_begun = row.pre_image is not None or row.status == ActionStatus.COMPLETED
        if has_begun and (is_later or (hint.get("history_id") or 0) >= history_id):
            changed = _may_have_changed(row)
            own.added.update(changed.add)
            own.removed.update(changed.remove)
        if (hint.get(WOKEN_AT) or 0) >= history_id:
            own.added.update(["INBOX"])
    return own


def _may_have_changed(action: Action) -> LabelChange:
    """Return what it changed; if Gmail's answer was lost, what it would have changed."""
    if action.status == ActionStatus.COMPLETED:
        return changed_labels(action.undo_hint or {})
    if action.action_type == ActionType.UNDO:
        return LabelChange(GMAILS_LABELS, GMAILS_LABELS)
    return change_of(ActionType(action.action_type))
