"""What an action does to a message's labels, and what taking it back must do: pure functions.

An undo hint is computed from what really changed. It holds `action`, the labels and flags before
(`pre_labels`, `pre_unread`, `pre_starred`, `pre_in_inbox`, `pre_in_trash`), `inverse_action` with
`inverse_parameters` {add_labels, remove_labels}, `changed` {added, removed}, and `history_id`,
after which Gmail's history lists the change; before the action is executed, `asked_history_id`, up
to which its asker knew the mailbox. The inverse of an action that changed nothing is
"none". `unstored` says that the message's row may lack the change until the next sync.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from mail.models import ActionType
from mail.services.actions.types import ACTIONS, UNCHANGEABLE_LABELS

UNSTORED = "unstored"


@dataclass(frozen=True)
class MessageState:
    """A message's labels, and the history id after which Gmail lists every later change of them.

    `cursor` is the account's history cursor at that time. `changed_at` is the id of the last record
    about the message, None if Gmail was not asked.
    """

    labels: list[str]
    history_id: int | None
    cursor: int | None
    changed_at: int | None = None


@dataclass(frozen=True)
class LabelChange:
    """Label ids to add to a message and to remove from it."""

    add: frozenset[str] = frozenset()
    remove: frozenset[str] = frozenset()

    @property
    def labels(self) -> frozenset[str]:
        """All labels that it adds or removes."""
        return self.add | self.remove

    def needed(self, labels: Collection[str]) -> LabelChange:
        """Return the part that changes a message with these labels."""
        return LabelChange(self.add - set(labels), self.remove & set(labels))

    def without(self, labels: Collection[str]) -> LabelChange:
        """Return the part that is about none of these labels."""
        return LabelChange(self.add - set(labels), self.remove - set(labels))

    def applied_to(self, labels: Collection[str]) -> list[str]:
        """Return the labels after the change."""
        return sorted((set(labels) - self.remove) | self.add)

    def __or__(self, other: LabelChange) -> LabelChange:
        return LabelChange(self.add | other.add, self.remove | other.remove)

    def __bool__(self) -> bool:
        return bool(self.labels)


def change_of(action_type: ActionType, label_id: str | None = None) -> LabelChange:
    """Return the labels that the action may add and remove.

    `label_id` is the label that the action names, or the label of snoozed messages. Without it (no
    label has the name) a label action changes nothing.
    """
    declared = ACTIONS[action_type]
    named = frozenset([label_id] if label_id else [])
    if action_type == ActionType.REMOVE_LABEL:
        return LabelChange(remove=named)
    return LabelChange(declared.adds | named, declared.removes)


def undo_hint(
    action_type: ActionType,
    before: Collection[str],
    after: Collection[str],
    possible: LabelChange,
    *,
    history_id: int | None = None,
) -> dict[str, Any]:
    """Return the hint for undoing the change from the labels `before` to the labels `after`.

    Only changes that are `possible` are the action's: somebody else made the others meanwhile.
    """
    removed = (set(before) - set(after)) & possible.remove - UNCHANGEABLE_LABELS
    added = (set(after) - set(before)) & possible.add - UNCHANGEABLE_LABELS
    return {
        "action": action_type.value,
        "pre_labels": sorted(before),
        "pre_unread": "UNREAD" in before,
        "pre_starred": "STARRED" in before,
        "pre_in_inbox": "INBOX" in before,
        "pre_in_trash": "TRASH" in before,
        "inverse_action": ACTIONS[action_type].inverse if added or removed else "none",
        # Moving into and out of the trash takes calls of their own, not a change of its label.
        "inverse_parameters": {
            "add_labels": sorted(removed - {"TRASH"}),
            "remove_labels": sorted(added - {"TRASH"}),
        },
        "changed": {"added": sorted(added), "removed": sorted(removed)},
        "history_id": history_id,
    }


def changed_labels(hint: dict[str, Any]) -> LabelChange:
    """Return the labels that an action changed, from its undo hint."""
    if "changed" in hint:
        return LabelChange(
            frozenset(hint["changed"]["added"]), frozenset(hint["changed"]["removed"])
        )
    # Hints of earlier versions have only the inverse.
    inverse = hint.get("inverse_parameters", {})
    trash = frozenset({"TRASH"})
    return LabelChange(
        frozenset(inverse.get("remove_labels", []))
        | (trash if hint.get("inverse_action") == "restore" else frozenset()),
        frozenset(inverse.get("add_labels", []))
        | (trash if hint.get("inverse_action") == "trash" else frozenset()),
    )
