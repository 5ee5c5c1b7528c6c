"""Does a rule's tree of conditions hold for a message? Pure functions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import assert_never

from mail.rules.conditions import (
    Group,
    HeaderMatch,
    LabelPresent,
    Leaf,
    SenderDomain,
    SenderEmail,
    SubjectContains,
    SubjectRegex,
    compile_pattern,
)

# Texts are cut to this length before they are matched.
MAX_TEXT_LENGTH = 10_000


@dataclass(frozen=True)
class RuleFacts:
    """The facts about a message that conditions use: lower-case address, Gmail's label ids."""

    sender_address: str
    subject: str
    headers: tuple[tuple[str, str], ...]
    labels: Collection[str]

    @property
    def sender_domain(self) -> str:
        """What follows the @ of the sender's address; empty for no address."""
        return self.sender_address.rpartition("@")[2] if "@" in self.sender_address else ""


def matches(condition: Group | Leaf, facts: RuleFacts) -> bool:
    """Say whether the condition holds.

    Raises:
        ValueError: a pattern can no longer be used.
    """
    if not isinstance(condition, Group):
        return _leaf_matches(condition, facts)
    held = (matches(child, facts) for child in condition.children)
    match condition.op:
        case "and":
            return all(held)
        case "or":
            return any(held)
        case "not":
            return not any(held)
    assert_never(condition.op)


def _leaf_matches(leaf: Leaf, facts: RuleFacts) -> bool:
    match leaf:
        case SenderEmail(value=address) if address.startswith("*@"):
            return facts.sender_domain == address[2:]
        case SenderEmail(value=address):
            return facts.sender_address == address
        case SenderDomain(value=domain):
            return facts.sender_domain == domain
        case SubjectContains(value=text):
            return text.casefold() in facts.subject[:MAX_TEXT_LENGTH].casefold()
        case SubjectRegex(value=pattern):
            return _found(pattern, facts.subject)
        case HeaderMatch(header=name, pattern=pattern):
            wanted = name.lower()
            return any(
                _found(pattern, value)
                for header, value in facts.headers
                if header.lower() == wanted
            )
        case LabelPresent(label=label_id):
            return label_id in facts.labels
    assert_never(leaf)


def _found(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).search(text[:MAX_TEXT_LENGTH]) is not None
