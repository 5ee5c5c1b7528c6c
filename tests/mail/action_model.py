"""What Mailroom's actions and undos must make of a mailbox that its owner uses meanwhile.

The model keeps who changed which label, in order. From that it knows what an undo may take back;
nothing may take back what the owner did.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

# Who changed a label: an action's id, or one of these two.
OWNER, WAKE = "owner", "wake"
PROJECTS, SNOOZED = "Projects", "Mailroom/Snoozed"
ACTIONS: dict[str, dict[str, bool]] = {
    "archive": {"INBOX": False},
    "mark_read": {"UNREAD": False},
    "mark_unread": {"UNREAD": True},
    "star": {"STARRED": True},
    "unstar": {"STARRED": False},
    "apply_label": {PROJECTS: True},
    "remove_label": {PROJECTS: False},
    "trash": {"TRASH": True, "INBOX": False},
    "delete": {"TRASH": True, "INBOX": False},
    "restore": {"TRASH": False},
    "snooze": {SNOOZED: True, "INBOX": False},
}
# These are about labels by name: what happens to the labels meanwhile does not overrule them.
NAMED = ("apply_label", "remove_label", "snooze")
# These move a message into Gmail's trash or out of it, which changes several labels at once.
MOVES = ("trash", "delete", "restore")


@dataclass
class Asked:
    """An action that was asked for; `undo_of` is the action that an undo takes back."""

    pk: UUID
    message: str
    kind: str
    undo_of: Asked | None = None
    status: str = "queued"
    # The labels and the length of the log before the first attempt that may or may not have taken
    # effect.
    before: set[str] | None = None
    since: int = 0
    # The length of the log at the last sync before the action was asked for.
    known: int = 0
    # What the action changed, by label.
    effects: dict[str, bool] = field(default_factory=dict)


@dataclass
class Model:
    """What each message's labels must be, who changed them, and what was asked of Mailroom."""

    labels: dict[str, set[str]] = field(default_factory=dict)
    log: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    # Beside each entry of the log, whether the label was put on; and how long it was at the last sync.
    ways: dict[str, list[bool]] = field(default_factory=dict)
    synced: dict[str, int] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def add(self, message: str, labels: set[str]) -> None:
        """Let a message arrive."""
        self.labels[message], self.log[message], self.ways[message] = labels, [], []

    def sync(self) -> None:
        """Let the store know the mailbox as it is."""
        self.synced = {message: len(log) for message, log in self.log.items()}

    def note(self, message: str, changed: dict[str, bool], by: Any, before: set[str]) -> None:
        for label, on in changed.items():
            if (label in before) is on:
                continue
            (self.labels[message].add if on else self.labels[message].discard)(label)
            self.log[message].append((label, by))
            self.ways[message].append(on)

    def judge(
        self, asked: Asked, before: set[str], after: set[str], log: int, refused: bool
    ) -> None:
        """Check an attempt's changes against the model, and log them."""
        wanted = self._wanted(asked, before)
        if asked.status != "completed":
            # The attempt may or may not have taken effect; its changes must be among the wanted
            # ones.
            if asked.before is None and not refused:
                asked.before, asked.since = set(before), log
            wanted = {one: on for one, on in wanted.items() if (one in after) is on}
        self.note(asked.message, wanted, asked.pk, before)
        if asked.status == "completed":
            self._keep_effects(asked, before, log)

    def _keep_effects(self, asked: Asked, before: set[str], log: int) -> None:
        first, since = asked.before, asked.since
        if first is None:
            first, since = before, log
        asked.since = since
        labels = self.labels[asked.message]
        wants = self._wants(asked, first)
        if asked.kind == "snooze" and "TRASH" in before and SNOOZED not in labels:
            wants = {}
        asked.effects = {
            one: on
            for one, on in wants.items()
            if (one in first) is not on and (one in labels) is on
        }

    def _wanted(self, asked: Asked, labels: set[str]) -> dict[str, bool]:
        """Return what an attempt must change now, but no label that somebody has changed back."""
        wants = {
            one: on for one, on in self._wants(asked, labels).items() if (one in labels) is not on
        }
        if overruled := self._overruled(asked, wants):
            wants = {one: on for one, on in wants.items() if one not in overruled}
            if asked.kind in MOVES:
                return {}
        if asked.before is not None and asked.undo_of is None:
            log = {label for label, _ in self.log[asked.message][asked.since :]}
            if asked.kind in MOVES:
                return {} if "TRASH" in log else wants
            wants = {one: on for one, on in wants.items() if one not in log}
        return wants

    def _overruled(self, asked: Asked, wants: dict[str, bool]) -> set[str]:
        """Return the labels that the owner changed the other way since it was asked for."""
        if asked.undo_of is not None or asked.kind in NAMED:
            return set()
        log = self.log[asked.message]
        entries = zip(log[asked.known :], self.ways[asked.message][asked.known :], strict=True)
        others = {(label, on) for (label, by), on in entries if by == OWNER}
        return {one for one, on in wants.items() if (one, not on) in others}

    def _wants(self, asked: Asked, labels: set[str]) -> dict[str, bool]:
        if asked.undo_of is None:
            wants = ACTIONS[asked.kind]
            at_rest = asked.kind in MOVES and ("TRASH" in labels) is wants["TRASH"]
            at_rest |= asked.kind == "snooze" and "TRASH" in labels
            return {} if at_rest else wants
        original = asked.undo_of
        wants = {
            one: not on
            for one, on in original.effects.items()
            if (one in labels) is on and not self.changed_since(original, one)
        }
        into_trash = wants.get("TRASH") and "INBOX" in labels
        if into_trash and self.changed_since(original, "INBOX"):
            # The message would leave the inbox, into which somebody has moved it since.
            del wants["TRASH"]
        elif into_trash:
            wants["INBOX"] = False
        return wants

    def changed_since(self, original: Asked, label: str) -> bool:
        """Say whether the label was changed since; an action and its undo cancel out."""
        entries = [by for one, by in self.log[original.message][original.since :] if one == label]
        if label in original.effects:
            entries = entries[1:]
        for undo in self.asked:
            pair = undo.undo_of and (undo.undo_of.pk, undo.pk)
            if pair and all(entries.count(one) == 1 for one in pair):
                entries = [by for by in entries if by not in pair]
        return bool(entries)
