"""A rule's conditions and actions as people read and write them, a line each.

    all of:
      from: *@billing.example
      not label: Paid
      any of:
        subject contains: invoice
        header List-Id matches: billing

What is indented belongs to the group above. An action is its name, with its parameters as JSON, or
with a label after a colon: `apply_label: Clients`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from mail.errors import ConditionsInvalid, RuleInvalid
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

INDENT = 2
# The actions whose one parameter, a label, may be written after a colon.
_LABELLED = {"apply_label", "remove_label"}
_PARAMETERS = 'snooze {"amount": 3, "units": "days"}'
_GROUPS = {"all of": "and", "any of": "or"}
_WORDS = {op: words for words, op in _GROUPS.items()}
_LINE = re.compile(r"(?P<indent> *)(?P<not>not )?(?P<kind>[^:]+):(?P<value>.*)")
_KINDS: dict[str, tuple[str, str]] = {
    "from": ("sender_email", "value"),
    "domain": ("sender_domain", "value"),
    "subject contains": ("subject_contains", "value"),
    "subject matches": ("subject_regex", "value"),
    "label": ("label_present", "label"),
}
_HEADER = re.compile(r"header (?P<name>\S+) matches")


def in_words(condition: Group | Leaf) -> list[str]:
    """Return the tree as lines."""
    return _lines(condition, negated=False)


def _lines(condition: Group | Leaf, *, negated: bool) -> list[str]:
    head = "not " if negated else ""
    if not isinstance(condition, Group):
        return [head + _leaf(condition)]
    if condition.op == "not":
        return _lines(condition.children[0], negated=not negated)
    lines = [line for child in condition.children for line in in_words(child)]
    return [f"{head}{_WORDS[condition.op]}:", *(" " * INDENT + line for line in lines)]


def _leaf(leaf: Leaf) -> str:
    match leaf:
        case SenderEmail(value=address):
            return f"from: {address}"
        case SenderDomain(value=domain):
            return f"domain: {domain}"
        case SubjectContains(value=text):
            return f"subject contains: {text}"
        case SubjectRegex(value=pattern):
            return f"subject matches: {pattern}"
        case HeaderMatch(header=name, pattern=pattern):
            return f"header {name} matches: {pattern}"
        case LabelPresent(label=label):
            return f"label: {label}"
    assert_never(leaf)


def read_words(text: str) -> dict[str, Any]:
    """Return the tree that the lines describe, not checked yet.

    Several lines without a group must all hold.

    Raises:
        ConditionsInvalid: a line cannot be read.
    """
    root: dict[str, Any] = {"op": "and", "children": []}
    groups, opened = [(-1, root)], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        indent, node, group = _read_line(number, line.expandtabs(INDENT))
        while groups[-1][0] >= indent:
            groups.pop()
        groups[-1][1]["children"].append(node)
        if group is not None:
            groups.append((indent, group))
            opened.append((number, group))
    for number, group in opened:
        if not group["children"]:
            raise _unreadable(number, "holds nothing: indent what belongs to it on the next lines")
    children: list[dict[str, Any]] = root["children"]
    return children[0] if len(children) == 1 else root


def _read_line(number: int, line: str) -> tuple[int, dict[str, Any], dict[str, Any] | None]:
    """Return a line's indentation, its node, and the group that the next lines may belong to."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise _unreadable(number, "has no colon; write for example “subject contains: invoice”")
    kind, value = found["kind"].strip().lower(), found["value"].strip()
    node: dict[str, Any]
    group = None
    if kind in _GROUPS:
        if value:
            raise _unreadable(number, f"has something after “{kind}:”; it goes on the next lines")
        node = group = {"op": _GROUPS[kind], "children": []}
    elif kind in _KINDS:
        name, field = _KINDS[kind]
        node = {"type": name, field: value}
    elif header := _HEADER.fullmatch(found["kind"].strip()):
        node = {"type": "header_match", "header": header["name"], "pattern": value}
    else:
        known = ", ".join([*_GROUPS, *_KINDS, "header NAME matches"])
        raise _unreadable(number, f"begins with none of: {known}")
    if found["not"]:
        node = {"op": "not", "children": [node]}
    return len(found["indent"]), node, group


def _unreadable(number: int, reason: str) -> ConditionsInvalid:
    fault = {"field": "conditions", "code": "invalid", "message": f"line {number} {reason}"}
    return ConditionsInvalid([fault])


def actions_in_words(actions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each action."""
    return [_action(one["action"], one["parameters"]) for one in actions]


def _action(name: str, parameters: Mapping[str, Any]) -> str:
    if set(parameters) == {"label"}:
        return f"{name}: {parameters['label']}"
    return f"{name} {json.dumps(parameters, ensure_ascii=False)}" if parameters else name


def read_actions(text: str) -> list[dict[str, Any]]:
    """Return the actions that the lines describe, not checked yet.

    Raises:
        RuleInvalid: parameters are neither JSON nor a label's name.
    """
    return [_read_action(line.strip()) for line in text.splitlines() if line.strip()]


def _read_action(line: str) -> dict[str, Any]:
    name, brace, rest = line.partition("{")
    if brace:
        try:
            return {"action": name.strip(" :"), "parameters": json.loads(brace + rest)}
        except (ValueError, RecursionError):
            raise _no_parameters(line) from None
    name, colon, label = line.partition(":")
    if colon and name.strip() not in _LABELLED:
        raise _no_parameters(line)
    return {"action": name.strip(), "parameters": {"label": label.strip()} if colon else {}}


def _no_parameters(line: str) -> RuleInvalid:
    message = f"“{line}” is not JSON behind its name; write for example {_PARAMETERS}"
    return RuleInvalid([{"field": "actions", "code": "invalid", "message": message}])
