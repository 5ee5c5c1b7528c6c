"""A rule's conditions and actions in words, as people read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from mail.models.action import ActionType
from mail.rules.conditions import (
    Group,
    HeaderMatch,
    LabelPresent,
    Leaf,
    SenderDomain,
    SenderEmail,
    SubjectContains,
    SubjectRegex,
)

LabelName = Callable[[str], str]


def in_words(condition: Group | Leaf, label_name: LabelName = str) -> list[str]:
    """Return the tree as lines, indented by two spaces a level; `label_name` names a label's id."""
    return _lines(condition, label_name, negated=False)


def _lines(condition: Group | Leaf, label_name: LabelName, *, negated: bool) -> list[str]:
    if not isinstance(condition, Group):
        return [_sentence(condition, label_name, negated=negated)]
    if condition.op == "not":
        return _lines(condition.children[0], label_name, negated=not negated)
    if len(condition.children) == 1:
        return _lines(condition.children[0], label_name, negated=negated)
    quantity = "all" if condition.op == "and" else "any"
    head = f"not {quantity} of these:" if negated else f"{quantity} of these:"
    lines = [line for child in condition.children for line in in_words(child, label_name)]
    return [head, *(f"  {line}" for line in lines)]


def _sentence(leaf: Leaf, label_name: LabelName, *, negated: bool) -> str:
    verb = "is not" if negated else "is"
    has = "does not contain" if negated else "contains"
    fits = "does not match" if negated else "matches"
    match leaf:
        case SenderEmail(value=address) if address.startswith("*@"):
            return f"the sender's domain {verb} {address[2:]}"
        case SenderEmail(value=address):
            return f"the sender {verb} {address}"
        case SenderDomain(value=domain):
            return f"the sender's domain {verb} {domain}"
        case SubjectContains(value=text):
            return f"the subject {has} “{text}”"
        case SubjectRegex(value=pattern):
            return f"the subject {fits} /{pattern}/"
        case HeaderMatch(header=name, pattern=pattern):
            return f"the header {name} {fits} /{pattern}/"
        case LabelPresent(label=label_id):
            return f"the label “{label_name(label_id)}” {verb} there"
    assert_never(leaf)


def actions_in_words(actions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each action: "Apply label: label Clients"."""
    return [_action(one) for one in actions]


def _action(action: Mapping[str, Any]) -> str:
    label = str(ActionType(action["action"]).label)
    parameters = ", ".join(f"{name} {value}" for name, value in action["parameters"].items())
    return f"{label}: {parameters}" if parameters else label
