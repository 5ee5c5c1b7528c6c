"""The tree of a rule's conditions: what it takes, what it refuses, when it holds, how it reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail.errors import ConditionsInvalid, RuleInvalid
from mail.rules.conditions import MAX_DEPTH, MAX_LEAVES, parse_conditions
from mail.rules.matching import RuleFacts, matches
from mail.rules.wording import actions_in_words, in_words, read_actions, read_words

pytestmark = pytest.mark.req("M-10")

FACTS = RuleFacts(
    sender_address="ann@billing.example",
    subject="Faktúra č. 2026-117",
    headers=(("List-Id", "<news.example>"), ("X-Kind", "Bulk mail")),
    labels=frozenset({"INBOX", "Label_7"}),
)
CONTAINS = {"type": "subject_contains", "value": "faktúra"}
LACKS = {"type": "subject_contains", "value": "reminder"}


def group(op: str, *children: Any) -> dict[str, Any]:
    return {"op": op, "children": list(children)}


@pytest.mark.parametrize(
    ("leaf", "held"),
    [
        ({"type": "sender_email", "value": "Ann@Billing.example"}, True),
        ({"type": "sender_email", "value": "bob@billing.example"}, False),
        ({"type": "sender_email", "value": "*@billing.example"}, True),
        ({"type": "sender_email", "value": "*@example"}, False),
        ({"type": "sender_domain", "value": "BILLING.example"}, True),
        ({"type": "sender_domain", "value": "example"}, False),
        (CONTAINS, True),
        (LACKS, False),
        ({"type": "subject_regex", "value": r"\d{4}-\d+$"}, True),
        ({"type": "subject_regex", "value": "^č"}, False),
        ({"type": "header_match", "header": "x-kind", "pattern": "^bulk"}, True),
        ({"type": "header_match", "header": "X-Kind", "pattern": "list"}, False),
        ({"type": "header_match", "header": "X-None", "pattern": ".*"}, False),
        ({"type": "label_present", "label": "Label_7"}, True),
        ({"type": "label_present", "label": "label_7"}, False),
        (group("and", CONTAINS, CONTAINS), True),
        (group("and", CONTAINS, LACKS), False),
        (group("or", LACKS, CONTAINS), True),
        (group("or", LACKS, LACKS), False),
        (group("not", LACKS), True),
        (group("not", CONTAINS), False),
        (group("and", group("not", LACKS), group("or", LACKS, CONTAINS)), True),
    ],
)
def test_a_tree_holds_or_not(leaf: dict[str, Any], held: bool) -> None:
    assert matches(parse_conditions(leaf), FACTS) is held


@pytest.mark.parametrize(
    ("tree", "field", "part"),
    [
        (None, "conditions", "op"),
        ({}, "conditions", "op"),
        ([], "conditions", "op"),
        (group("and"), "conditions.children", "at least 1"),
        (group("not", CONTAINS, LACKS), "conditions", "exactly one"),
        (group("xor", CONTAINS), "conditions.op", "and"),
        ({"type": "sender"}, "conditions", "sender_email"),
        ({"type": "sender_email", "value": "ann"}, "conditions.value", "ann@example.org"),
        ({"type": "sender_email", "value": "a*@example.org"}, "conditions.value", "*"),
        ({"type": "sender_domain", "value": "ann@example.org"}, "conditions.value", "domain"),
        ({"type": "subject_contains", "value": "  "}, "conditions.value", "at least 1"),
        ({"type": "subject_contains", "value": "a", "case": 1}, "conditions.case", "not permitted"),
        ({"type": "subject_regex", "value": "("}, "conditions.value", "missing"),
        ({"type": "subject_regex", "value": "(?=a)"}, "conditions.value", "pattern"),
        (
            {"type": "header_match", "header": "X Kind", "pattern": "a"},
            "conditions.header",
            "match",
        ),
        (
            group("and", CONTAINS, {"type": "label_present"}),
            "conditions.children.1.label",
            "required",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(tree: Any, field: str, part: str) -> None:
    with pytest.raises(ConditionsInvalid) as refused:
        parse_conditions(tree)
    assert any(one["field"] == field and part in one["message"] for one in refused.value.errors), (
        refused.value.errors
    )


def nested(depth: int) -> dict[str, Any]:
    return CONTAINS if depth == 0 else group("and", nested(depth - 1))


def test_trees_are_bounded_in_depth_and_leaves() -> None:
    parse_conditions(nested(MAX_DEPTH))
    with pytest.raises(ConditionsInvalid, match="deeper"):
        parse_conditions(nested(MAX_DEPTH + 1))
    parse_conditions(group("or", *[CONTAINS] * MAX_LEAVES))
    with pytest.raises(ConditionsInvalid, match="more than"):
        parse_conditions(group("or", *[CONTAINS] * (MAX_LEAVES + 1)))


def test_a_hostile_subject_cannot_stall_a_pattern() -> None:
    tree = parse_conditions({"type": "subject_regex", "value": "(a+)+$"})
    facts = RuleFacts("", "a" * 9_000 + "!", (), ())
    # A backtracking matcher would take longer than the test may.
    assert not matches(tree, facts)


TREES = st.recursive(
    st.sampled_from([CONTAINS, LACKS]),
    lambda children: st.one_of(
        st.builds(lambda one: group("not", one), children),
        st.builds(group, st.sampled_from(["and", "or"]), children, children),
    ),
    max_leaves=12,
).filter(lambda tree: "op" in tree)


@given(tree=TREES)
def test_a_tree_and_its_negation_never_agree(tree: dict[str, Any]) -> None:
    try:
        parsed = parse_conditions(tree)
        negated = parse_conditions(group("not", tree))
    except ConditionsInvalid:
        return
    assert matches(parsed, FACTS) is not matches(negated, FACTS)
    assert in_words(parsed) != in_words(negated)


WRITTEN = """\
all of:
  from: *@billing.example
  not label: Paid
  any of:
    subject contains: faktúra
    subject matches: ^\\d: x
    header List-Id matches: bill
  not any of:
    domain: example.org"""


def test_a_tree_reads_as_words_and_is_read_from_them() -> None:
    tree = group(
        "and",
        {"type": "sender_email", "value": "*@billing.example"},
        group("not", {"type": "label_present", "label": "Paid"}),
        group(
            "or",
            CONTAINS,
            {"type": "subject_regex", "value": r"^\d: x"},
            {"type": "header_match", "header": "List-Id", "pattern": "bill"},
        ),
        group("not", group("or", {"type": "sender_domain", "value": "example.org"})),
    )
    assert in_words(parse_conditions(tree)) == WRITTEN.splitlines()
    assert read_words(WRITTEN) == tree


def test_lines_without_a_group_must_all_hold() -> None:
    both = read_words("subject contains: faktúra\n\nnot subject contains: reminder\n")
    assert both == group("and", CONTAINS, group("not", LACKS))


@given(tree=TREES)
def test_what_is_written_is_read_as_the_same_conditions(tree: dict[str, Any]) -> None:
    try:
        parsed = parse_conditions(tree)
    except ConditionsInvalid:
        return
    words = in_words(parsed)
    again = parse_conditions(read_words("\n".join(words)))
    assert in_words(again) == words
    assert matches(again, FACTS) is matches(parsed, FACTS)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("invoice", "line 1 has no colon"),
        ("subject contains: a\nsubject is: b", "line 2 begins with none"),
        ("any of: subject", "line 1 has something after"),
        ("any of:", "line 1 holds nothing"),
        ("subject contains: a\nall of:\nfrom: ann@x.example", "line 2 holds nothing: indent"),
        ("not any of:\n  all of:\nlabel: Paid", "line 2 holds nothing"),
    ],
)
def test_lines_that_cannot_be_read_are_named(text: str, part: str) -> None:
    with pytest.raises(ConditionsInvalid, match=part):
        read_words(text)


def test_actions_are_written_and_read() -> None:
    actions = [
        {"action": "archive", "parameters": {}},
        {"action": "apply_label", "parameters": {"label": "Clients: new"}},
        {"action": "snooze", "parameters": {"amount": 2, "units": "days"}},
    ]
    words = actions_in_words(actions)
    assert words[:2] == ["archive", "apply_label: Clients: new"]
    assert read_actions("\n".join(words)) == actions


@pytest.mark.parametrize(
    "line",
    [
        "snooze {amount: 2}",
        "snooze: 3 days",
        "forward: ann@x.example",
        "archive: now",
        pytest.param("snooze " + '{"a":' * 5000 + "1" + "}" * 5000, id="too deep"),
    ],
)
def test_an_action_that_cannot_be_read_says_how_parameters_are_written(line: str) -> None:
    with pytest.raises(RuleInvalid, match=r"not JSON .* example snooze {"):
        read_actions(line)
