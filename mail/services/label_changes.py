"""What an action does to a message's labels, and what taking it back must do: pure functions.

An undo hint is computed from what really changed. It holds `action`, the labels and flags before
(`pre_labels`, `pre_unread`, `pre_starred`, `pre_in_inbox`, `pre_in_trash`), and `inverse_action`
with `inverse_parameters` {add_labels, remove_labels}; the inverse of an action that changed
nothing is "none".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from mail.errors import ActionInvalid
from mail.models import MAX_LABEL_LENGTH, ActionType

LABEL_ACTIONS = frozenset({ActionType.APPLY_LABEL, ActionType.REMOVE_LABEL})
# Gmail puts these on itself and refuses to have them changed.
UNCHANGEABLE_LABELS = frozenset({"SENT", "DRAFT"})

_CHANGES: dict[ActionType, tuple[tuple[str, ...], tuple[str, ...]]] = {
    ActionType.ARCHIVE: ((), ("INBOX",)),
    ActionType.MARK_READ: ((), ("UNREAD",)),
    ActionType.MARK_UNREAD: (("UNREAD",), ()),
    ActionType.STAR: (("STARRED",), ()),
    ActionType.UNSTAR: ((), ("STARRED",)),
}
_INVERSES: dict[ActionType, str] = {
    ActionType.ARCHIVE: "apply_label",
    ActionType.APPLY_LABEL: "remove_label",
    ActionType.REMOVE_LABEL: "apply_label",
    ActionType.MARK_READ: "mark_unread",
    ActionType.MARK_UNREAD: "mark_read",
    ActionType.STAR: "unstar",
    ActionType.UNSTAR: "star",
    ActionType.TRASH: "restore",
    ActionType.RESTORE: "trash",
}


@dataclass(frozen=True)
class LabelChange:
    """Label ids to add to a message and to remove from it."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


def label_parameter(action_type: ActionType, parameters: dict[str, Any]) -> str | None:
    """Return the label a label action names, None for an action of another kind.

    Raises:
        ActionInvalid: parameters are missing, wrong, or not for this action.
    """
    unknown = set(parameters) - ({"label"} if action_type in LABEL_ACTIONS else set())
    if unknown:
        raise ActionInvalid(f"{action_type} takes no parameter {', '.join(sorted(unknown))}")
    if action_type not in LABEL_ACTIONS:
        return None
    label = parameters.get("label")
    if not isinstance(label, str) or not label.strip():
        raise ActionInvalid(f"{action_type} needs a label: the name or id of one")
    if len(label) > MAX_LABEL_LENGTH:
        raise ActionInvalid(f"the label is longer than {MAX_LABEL_LENGTH} characters")
    if label.upper() in UNCHANGEABLE_LABELS:
        raise ActionInvalid(f"Gmail does not let anybody change the label {label.upper()}")
    return label.strip()


def change_of(action_type: ActionType, label_id: str | None) -> LabelChange:
    """Return what the action changes; trash and restore have calls of their own in Gmail.

    A label action without a label id (nothing of that name exists) changes nothing.
    """
    if action_type == ActionType.APPLY_LABEL:
        return LabelChange(add=(label_id,) if label_id else ())
    if action_type == ActionType.REMOVE_LABEL:
        return LabelChange(remove=(label_id,) if label_id else ())
    add, remove = _CHANGES[action_type]
    return LabelChange(add=add, remove=remove)


def undo_hint(
    action_type: ActionType, before: Collection[str], after: Collection[str]
) -> dict[str, Any]:
    """Return the hint for taking back what led from the labels `before` to those `after`."""
    lost = sorted(set(before) - set(after) - UNCHANGEABLE_LABELS)
    gained = sorted(set(after) - set(before) - UNCHANGEABLE_LABELS)
    # The trash is left and entered by calls of their own, not by changing its label.
    inverse = LabelChange(
        add=tuple(label for label in lost if label != "TRASH"),
        remove=tuple(label for label in gained if label != "TRASH"),
    )
    changed = bool(lost or gained)
    return {
        "action": action_type.value,
        "pre_labels": sorted(before),
        "pre_unread": "UNREAD" in before,
        "pre_starred": "STARRED" in before,
        "pre_in_inbox": "INBOX" in before,
        "pre_in_trash": "TRASH" in before,
        "inverse_action": _INVERSES[action_type] if changed else "none",
        "inverse_parameters": {
            "add_labels": list(inverse.add),
            "remove_labels": list(inverse.remove),
        },
    }
