"""Labels in rules: a name means the same label in every mailbox, an id only in its own."""

from __future__ import annotations

from typing import Any

import pytest

from mail.errors import ConditionsInvalid, FaultyInput, RuleInvalid
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import Action, MailLabel, Rule, Scope
from mail.services.mailboxes.accounts import open_account
from mail.services.rules.operations import (
    change_rule,
    create_rule,
    enable_rule,
    matches_of,
    switch_off_rule,
    try_rule,
)
from mail.services.rules.rules import (
    disable_rules_of_labels,
    enabled_rules,
    matching_rules,
    request_actions,
)
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, letter, only, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-10")]

ARCHIVE = {"action": "archive", "parameters": {}}


@pytest.fixture
def ann(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox in which Label_10 is Paid."""
    return labelled(mailbox, Label_10="Paid")


@pytest.fixture
def bea(mailbox: Mailbox) -> Mailbox:
    """Return another mailbox of the firm, in which Label_10 is Urgent and Label_11 is Paid."""
    account = open_account(mailbox.firm, "bea@acme.example")
    other = Mailbox(mailbox.firm, account, mailbox.simulator)
    return labelled(other, Label_10="Urgent", Label_11="Paid")


def labelled(mailbox: Mailbox, **names: str) -> Mailbox:
    with firm_scope(mailbox.firm):
        for label_id, name in names.items():
            MailLabel.objects.create(account=mailbox.account, gmail_label_id=label_id, name=name)
    return mailbox


def has(label: str) -> dict[str, Any]:
    return {"type": "label_present", "label": label}


def lacks(label: str) -> dict[str, Any]:
    return {"op": "not", "children": [has(label)]}


def rule_of(mailbox: Mailbox, conditions: Any, *, own: bool = False, **settings: Any) -> Rule:
    """Make and enable a rule, of the firm or of the mailbox alone."""
    scope = {"scope": Scope.ACCOUNT, "account_id": mailbox.account.pk} if own else {}
    given = {"name": f"Rule {len(stored(Rule))}", "actions": [ARCHIVE], **scope, **settings}
    rule = create_rule(mailbox.firm.pk, conditions=conditions, **given)
    try_rule(rule, user_id=None)
    return enable_rule(rule)


def from_before(rule: Rule, conditions: Any) -> Rule:
    """Store conditions with a label's id, as an earlier version stored them."""
    with firm_scope(rule.firm_id):
        Rule.objects.filter(pk=rule.pk).update(conditions=conditions)
    return only(stored(Rule), pk=rule.pk)


def holding(mailbox: Mailbox, *labels: str) -> bool:
    """Say whether any rule holds for a new message with these labels."""
    return bool(matching(mailbox, arrived(mailbox, *labels)))


def arrived(mailbox: Mailbox, *labels: str) -> Any:
    gmail_id = mailbox.receive(letter(to=mailbox.account.address))
    mailbox.store_all()
    message = mailbox.message(gmail_id)
    message.labels = ["INBOX", *labels]
    with firm_scope(mailbox.firm):
        message.save(update_fields=["labels"])
    return message


def matching(mailbox: Mailbox, message: Any) -> list[Rule]:
    with firm_scope(mailbox.firm):
        return matching_rules(mailbox.account, message, among=enabled_rules(mailbox.account))


@pytest.mark.parametrize("written", ["Paid", "paid", "PAID"])
def test_a_rule_of_the_firm_finds_the_label_by_its_name_in_each_mailbox(
    ann: Mailbox, bea: Mailbox, written: str
) -> None:
    rule = rule_of(ann, has(written))
    assert rule.conditions == has("Paid")
    assert holding(ann, "Label_10")
    assert not holding(ann, "Label_11")
    assert holding(bea, "Label_11")
    assert not holding(bea, "Label_10")


def test_a_try_asks_each_mailbox_for_its_own_label(ann: Mailbox, bea: Mailbox) -> None:
    rule = rule_of(ann, has("Paid"))
    arrived(bea, "Label_10")
    found = arrived(bea, "Label_11")
    with firm_scope(ann.firm):
        assert matches_of(rule, None).matched == [found]


def test_a_mailbox_without_the_label_has_no_mail_with_it(ann: Mailbox, bea: Mailbox) -> None:
    rule_of(ann, has("Urgent"))
    assert not holding(ann, "Label_10")
    assert holding(bea, "Label_10")


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("STARRED", "STARRED"),
        ("Starred", "STARRED"),
        ("sent", "SENT"),
        ("category_promotions", "CATEGORY_PROMOTIONS"),
    ],
)
def test_labels_of_gmails_own_are_found_in_any_case(
    ann: Mailbox, own: bool, written: str, kept: str
) -> None:
    rule = rule_of(ann, lacks(written), own=own)
    assert rule.conditions == lacks(kept)
    assert not holding(ann, kept)
    assert holding(ann)


@pytest.mark.parametrize("written", ["paid", "Label_11"])
def test_a_rule_of_one_mailbox_keeps_the_id_so_a_new_name_changes_nothing(
    bea: Mailbox, written: str
) -> None:
    rule = rule_of(bea, has(written), own=True)
    assert rule.conditions == has("Label_11")
    with firm_scope(bea.firm):
        MailLabel.objects.filter(name="Paid").update(name="Settled")
    assert holding(bea, "Label_11")


@pytest.mark.parametrize(
    ("own", "label", "why"),
    [
        (True, "Payed", "“Payed” is no label of the mailbox"),
        (True, "Urgent", "“Urgent” is no label of the mailbox"),
        (False, "Payed", "“Payed” is no label of any mailbox of the firm"),
        (False, "Label_10", "“Label_10” is the id of different labels; write the name"),
    ],
)
def test_a_label_that_is_not_there_is_refused_by_its_field(
    ann: Mailbox, bea: Mailbox, own: bool, label: str, why: str
) -> None:
    nested = {"op": "and", "children": [has("Paid"), lacks(label)]}
    with pytest.raises(ConditionsInvalid) as refused:
        rule_of(ann, nested, own=own)
    assert refused.value.errors == [
        {"field": "conditions.children.1.children.0.label", "code": "invalid", "message": why}
    ]
    assert stored(Rule) == []


def test_an_id_that_is_one_label_in_the_firm_stands_for_its_name(
    ann: Mailbox, bea: Mailbox
) -> None:
    puts = [{"action": "apply_label", "parameters": {"label": "Label_11"}}]
    rule = rule_of(ann, has("Label_11"), actions=puts)
    assert rule.conditions == has("Paid")
    assert rule.actions == [{"action": "apply_label", "parameters": {"label": "Paid"}}]


def test_an_action_of_the_firm_puts_no_label_by_an_id_of_several(
    ann: Mailbox, bea: Mailbox
) -> None:
    for label in ("Label_10", "Label_99"):
        puts = [{"action": "apply_label", "parameters": {"label": label}}]
        with pytest.raises(RuleInvalid) as refused:
            rule_of(ann, has("INBOX"), actions=puts)
        assert [one["field"] for one in refused.value.errors] == ["actions.0"]


def test_a_label_of_mailrooms_own_is_found_under_the_name_a_person_gave_it(
    ann: Mailbox, bea: Mailbox
) -> None:
    fyi = LABEL_NAMES[LabelKey.FYI]
    with firm_scope(ann.firm):
        for box, name in ((ann, fyi), (bea, "Only to know")):
            MailLabel.objects.create(
                account=box.account, gmail_label_id="Label_20", name=name, key=LabelKey.FYI
            )
    assert rule_of(ann, has("only to know")).conditions == has(fyi)
    assert holding(ann, "Label_20")
    assert holding(bea, "Label_20")


def test_a_rule_of_the_firm_from_before_means_the_label_its_page_showed(
    ann: Mailbox, bea: Mailbox
) -> None:
    rule = from_before(rule_of(ann, has("Paid")), has("Label_10"))
    assert holding(bea, "Label_11")
    assert not holding(bea, "Label_10")
    assert change_rule(rule, priority=7).enabled
    assert change_rule(rule, conditions=has("paid"), priority=8).enabled
    assert only(stored(Rule)).conditions == has("Label_10")
    assert enable_rule(switch_off_rule(rule)).enabled


def test_actions_of_the_firm_from_before_put_the_label_their_id_stood_for(
    ann: Mailbox, bea: Mailbox
) -> None:
    puts = [{"action": "apply_label", "parameters": {"label": "Paid"}}]
    rule = rule_of(ann, has("INBOX"), actions=puts)
    rule.actions = [{"action": "apply_label", "parameters": {"label": "Label_10"}}]
    with firm_scope(ann.firm):
        request_actions(rule, arrived(bea))
    assert only(stored(Action)).parameters == {"label": "Paid"}


@pytest.mark.parametrize("kept", ["Paid", "starred"])
def test_a_rule_of_one_mailbox_from_before_that_holds_a_name_finds_it(
    ann: Mailbox, kept: str
) -> None:
    rule = rule_of(ann, has("Paid"), own=True)
    from_before(rule, lacks(kept))
    assert not holding(ann, "Label_10" if kept == "Paid" else "STARRED")
    assert holding(ann)


def test_a_rule_that_goes_to_another_mailbox_or_to_all_takes_its_label_along(
    ann: Mailbox, bea: Mailbox
) -> None:
    rule = rule_of(ann, has("Paid"), own=True)
    moved = change_rule(rule, account_id=bea.account.pk)
    assert (moved.conditions, moved.enabled) == (has("Label_11"), False)
    everywhere = change_rule(rule, account_id=None, scope=Scope.GLOBAL)
    assert everywhere.conditions == has("Paid")
    with firm_scope(ann.firm):
        MailLabel.objects.filter(account=ann.account).delete()
    with pytest.raises(FaultyInput):
        change_rule(rule, account_id=ann.account.pk, scope=Scope.ACCOUNT)


@pytest.mark.req("M-07")
def test_a_rule_of_the_firm_ends_with_the_last_label_of_its_name(
    ann: Mailbox, bea: Mailbox
) -> None:
    rule = rule_of(ann, has("Paid"))
    old = from_before(rule_of(ann, has("Paid")), has("Label_10"))
    with firm_scope(ann.firm):
        # In this mailbox, Label_10 is another label.
        assert disable_rules_of_labels(bea.account, [("Label_10", "Urgent")]) == 0
        assert disable_rules_of_labels(bea.account, [("Label_11", "Paid")]) == 0
        MailLabel.objects.filter(account=bea.account).delete()
        assert disable_rules_of_labels(ann.account, [("Label_10", "Paid")]) == 2
    reasons = {one.disabled_reason for one in stored(Rule)}
    assert reasons == {"Label 'Paid' was deleted from Gmail"}
    assert not any(one.enabled for one in stored(Rule) if one.pk in (rule.pk, old.pk))
