"""Decides whether an action needs a person's approval: by its danger, the confidence, and lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Danger(StrEnum):
    """What an action can cost."""

    SAFE = "safe"
    REVERSIBLE = "reversible"
    DANGEROUS = "dangerous"


DANGER: Final[Mapping[str, Danger]] = {
    **dict.fromkeys(
        [
            "apply_label", "remove_label", "mark_read", "mark_unread", "archive", "move", "trash",
            "restore", "none", "undo",
        ],
        Danger.SAFE,
    ),
    **dict.fromkeys(["star", "unstar", "snooze", "add_note", "create_task"], Danger.REVERSIBLE),
    **dict.fromkeys(["delete", "forward", "auto_reply", "escalate"], Danger.DANGEROUS),
}  # fmt: skip
"""Danger by the name of the action; one that is not here is dangerous."""

MIN_CONFIDENCE: Final = 0.7
ALWAYS_APPROVED: Final = frozenset({"delete", "forward", "auto_reply", "escalate"})


def is_dangerous(action: str) -> bool:
    """Say whether an action is dangerous; an unknown one is."""
    return DANGER.get(action, Danger.DANGEROUS) == Danger.DANGEROUS


class SafetyMode(StrEnum):
    """Which checks the rule that asks is spared."""

    DEFAULT = "default"
    ALWAYS_SAFE = "always_safe"
    """Skips the check of the confidence, and no other."""
    DANGEROUS_OVERRIDE = "dangerous_override"
    """Skips every check."""


class Check(StrEnum):
    """Why an action waits; the value is stored with the approval."""

    DANGEROUS = "dangerous"
    LOW_CONFIDENCE = "low_confidence"
    APPROVAL_LIST = "approval_list"
    ASKED_BY_MODEL = "asked_by_model"


@dataclass(frozen=True, slots=True)
class SafetyVerdict:
    """The checks that demand an approval, and those that the mode skipped."""

    checks: tuple[Check, ...] = ()
    spared: tuple[Check, ...] = ()

    @property
    def needs_approval(self) -> bool:
        """Whether the action waits for an approval."""
        return bool(self.checks)


_SPARED: Mapping[SafetyMode, frozenset[Check]] = {
    SafetyMode.DEFAULT: frozenset(),
    SafetyMode.ALWAYS_SAFE: frozenset({Check.LOW_CONFIDENCE}),
    SafetyMode.DANGEROUS_OVERRIDE: frozenset(Check),
}


def check_safety(
    action: str,
    *,
    confidence: float = 1.0,
    asked_by_model: bool = False,
    mode: SafetyMode = SafetyMode.DEFAULT,
    min_confidence: float = MIN_CONFIDENCE,
    always_approved: frozenset[str] = ALWAYS_APPROVED,
) -> SafetyVerdict:
    """Return whether the action waits, and for which reasons.

    `mode` is the mode of the rule that asks for the action; a classifier's decision has the
    default.
    """
    # Not `confidence < min_confidence`, which a NaN would pass.
    unsure = not confidence >= min_confidence
    found = {
        Check.DANGEROUS: is_dangerous(action),
        Check.LOW_CONFIDENCE: unsure,
        Check.APPROVAL_LIST: action in always_approved,
        Check.ASKED_BY_MODEL: asked_by_model,
    }
    failed = [check for check, fails in found.items() if fails]
    spared = _SPARED[mode]
    return SafetyVerdict(
        checks=tuple(check for check in failed if check not in spared),
        spared=tuple(check for check in failed if check in spared),
    )
