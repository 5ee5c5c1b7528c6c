"""Rules: tried, enabled, applied to new and old mail, switched off when they cannot be used."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from jobs.engine.outcomes import Completed
from mail.errors import RuleInvalid, WrongState
from mail.labels import PAUSE_LABEL
from mail.llm.base import Category
from mail.models import (
    Action,
    ActionStatus,
    ActionType,
    Approval,
    Decision,
    MailLabel,
    MailThread,
    Message,
    OutboundMessage,
    Rule,
    Scope,
)
from mail.services.approvals.approvals import approve, reject
from mail.services.deciding.classify import classify_thread
from mail.services.mailboxes.accounts import open_account
from mail.services.rules.operations import (
    apply_to_old_mail,
    change_rule,
    create_rule,
    delete_rule,
    enable_rule,
    switch_off_rule,
    try_rule,
)
from mail.services.rules.rules import disable_rules_of_labels
from mail.services.syncing.labels import ensure_label
from tenants.models import AuditEntry, Firm
from tenants.scope import firm_scope
from tests.mail.approval_kit import person
from tests.mail.mail_kit import FixedClassifier, Mailbox, drain, jobs, letter, only, stored
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-10")]

INVOICES = {"type": "subject_contains", "value": "invoice"}
ARCHIVE = {"action": "archive", "parameters": {}}


@pytest.fixture
def other_mailbox(mailbox: Mailbox) -> Mailbox:
    """Return another mailbox of the same firm."""
    account = open_account(mailbox.firm, "other@acme.example")
    return Mailbox(mailbox.firm, account, mailbox.simulator)


def rule_of(firm: Firm, *, enabled: bool = True, **settings: Any) -> Rule:
    """Make a rule that archives invoices, tried and enabled."""
    given = {"name": f"Rule {uuid4()}", "conditions": INVOICES, "actions": [ARCHIVE], **settings}
    rule = create_rule(firm.pk, **given)
    if enabled:
        try_rule(rule, user_id=None)
        rule = enable_rule(rule)
    return rule


def arrive(mailbox: Mailbox, subject: str = "Invoice 7", **letter_of: Any) -> str:
    arrived = mailbox.receive(letter(subject, **letter_of))
    mailbox.store_all()
    return arrived


def judge(mailbox: Mailbox, arrived: str) -> FixedClassifier:
    message, classifier = mailbox.message(arrived), FixedClassifier()
    classify_thread(mailbox.account, message.thread_id, message.pk, classifier, job_id=uuid4())
    return classifier


def actions_of(rule: Rule) -> list[str]:
    return [action.action_type for action in stored(Action) if action.rule_id == rule.pk]


def reload(rule: Rule) -> Rule:
    return only(stored(Rule), pk=rule.pk)


@pytest.mark.req("M-09")
def test_a_rule_with_a_category_decides_and_nobody_else_is_asked(mailbox: Mailbox) -> None:
    rule = rule_of(mailbox.firm, category="payment_request")
    classifier = judge(mailbox, arrive(mailbox))
    assert classifier.asked == 0
    (decision,) = stored(Decision)
    assert (decision.source, decision.category, decision.confidence) == (
        "rule", Category.PAYMENT_REQUEST, 1.0,
    )  # fmt: skip
    assert decision.explanations["rules"] == [{"id": str(rule.pk), "name": rule.name}]
    assert actions_of(rule) == [ActionType.ARCHIVE]
    assert only(stored(MailThread)).classification == Category.PAYMENT_REQUEST


def test_a_rule_without_a_category_leaves_it_to_the_classifier(mailbox: Mailbox) -> None:
    rule = rule_of(mailbox.firm)
    assert judge(mailbox, arrive(mailbox)).asked == 1
    (decision,) = stored(Decision)
    assert decision.source == "offline"
    assert actions_of(rule) == [ActionType.ARCHIVE]


def test_a_rule_that_does_not_hold_does_nothing(mailbox: Mailbox) -> None:
    rule = rule_of(mailbox.firm, category="fyi")
    assert judge(mailbox, arrive(mailbox, "Lunch?")).asked == 1
    assert actions_of(rule) == []


@pytest.mark.parametrize(
    ("scope", "ref", "holds"),
    [
        (Scope.GLOBAL, "", True),
        (Scope.DOMAIN, "Customer.example", True),
        (Scope.DOMAIN, "example", False),
        (Scope.SENDER, "ANNA@customer.example", True),
        (Scope.SENDER, "bob@customer.example", False),
    ],
)
def test_scopes(mailbox: Mailbox, scope: Scope, ref: str, holds: bool) -> None:
    rule = rule_of(mailbox.firm, scope=scope, scope_ref=ref)
    judge(mailbox, arrive(mailbox))
    assert bool(actions_of(rule)) is holds


def test_a_rule_of_one_mailbox_leaves_the_others_alone(
    mailbox: Mailbox, other_mailbox: Mailbox
) -> None:
    own = rule_of(mailbox.firm, scope=Scope.ACCOUNT, account_id=mailbox.account.pk)
    judge(other_mailbox, arrive(other_mailbox))
    assert actions_of(own) == []
    judge(mailbox, arrive(mailbox))
    assert actions_of(own) == [ActionType.ARCHIVE]


def test_the_lowest_priority_number_wins_and_all_apply_where_so_set(
    mailbox: Mailbox, settings: Any
) -> None:
    later = rule_of(mailbox.firm, priority=20, category="fyi")
    first = rule_of(
        mailbox.firm,
        priority=10,
        actions=[{"action": "star", "parameters": {}}],
        category="action_required",
    )
    judge(mailbox, arrive(mailbox))
    assert (actions_of(first), actions_of(later)) == (["star"], [])

    settings.RULES_APPLY = "all"
    judge(mailbox, arrive(mailbox, "Invoice 8"))
    assert (actions_of(first), actions_of(later)) == (["star", "star"], ["archive"])
    assert stored(Decision)[-1].category == Category.ACTION_REQUIRED


def test_a_rule_that_cannot_be_used_is_switched_off_and_the_others_go_on(
    mailbox: Mailbox,
) -> None:
    broken, sound = rule_of(mailbox.firm, priority=1), rule_of(mailbox.firm, priority=2)
    with firm_scope(mailbox.firm):
        Rule.objects.filter(pk=broken.pk).update(
            conditions={"type": "subject_regex", "value": "(?<!x)"}
        )
    judge(mailbox, arrive(mailbox))
    assert actions_of(sound) == [ActionType.ARCHIVE]
    broken = reload(broken)
    assert not broken.enabled
    assert "pattern" in broken.disabled_reason
    entry = only(stored(AuditEntry), act="rule.disable")
    assert entry.target_id == str(broken.pk)


@pytest.mark.parametrize(
    "stored_action",
    [{"action": "shred", "parameters": {}}, {"parameters": {}}, {"action": "archive"}, "archive"],
    ids=["unknown", "without-a-name", "without-parameters", "text"],
)
def test_a_rule_whose_stored_actions_nobody_can_read_is_switched_off(
    mailbox: Mailbox, stored_action: Any
) -> None:
    broken = rule_of(mailbox.firm)
    with firm_scope(mailbox.firm):
        Rule.objects.filter(pk=broken.pk).update(actions=[stored_action])
    judge(mailbox, arrive(mailbox))
    broken = reload(broken)
    assert (broken.enabled, actions_of(broken)) == (False, [])
    assert broken.disabled_reason == "Its actions cannot be used: it cannot be read"
    assert len(stored(Decision)) == 1


@pytest.mark.req("M-07")
def test_a_label_that_gmail_no_longer_has_switches_its_rules_off(
    mailbox: Mailbox, other_mailbox: Mailbox
) -> None:
    has = {"type": "label_present", "label": "Label_9"}
    applies = [{"action": "apply_label", "parameters": {"label": "Clients"}}]
    with firm_scope(mailbox.firm):
        MailLabel.objects.create(account=mailbox.account, gmail_label_id="Label_9", name="Clients")
    own = {"scope": Scope.ACCOUNT, "account_id": mailbox.account.pk}
    others = {"scope": Scope.ACCOUNT, "account_id": other_mailbox.account.pk}
    gone = [
        rule_of(mailbox.firm, conditions=has, **own),
        rule_of(mailbox.firm, actions=applies, **own),
        rule_of(mailbox.firm, conditions=has),
    ]
    kept = [
        rule_of(mailbox.firm, actions=applies),
        rule_of(other_mailbox.firm, actions=applies, **others),
        rule_of(mailbox.firm),
    ]
    with firm_scope(mailbox.firm):
        assert disable_rules_of_labels(mailbox.account, [("Label_9", "Clients")]) == 3
    assert {reload(rule).disabled_reason for rule in gone} == {
        "Label 'Clients' was deleted from Gmail"
    }
    assert all(reload(rule).enabled for rule in kept)


def test_a_rule_is_tried_before_it_is_enabled_and_again_after_a_change(mailbox: Mailbox) -> None:
    arrive(mailbox)
    arrive(mailbox, "Lunch?")
    rule = rule_of(mailbox.firm, enabled=False)
    with pytest.raises(WrongState, match="Try"):
        enable_rule(rule)
    trial = try_rule(rule, user_id=None)
    assert (trial.looked_at, [one.subject for one in trial.matched]) == (2, ["Invoice 7"])
    assert stored(Action) == []
    assert enable_rule(rule).enabled

    assert change_rule(rule, name="Bills", priority=3).enabled
    changed = change_rule(rule, conditions={"type": "subject_contains", "value": "lunch"})
    assert (changed.enabled, changed.tried_at) == (False, None)
    with pytest.raises(WrongState, match="Try"):
        enable_rule(rule)


@pytest.mark.req("M-23")
def test_a_try_shows_nothing_of_mail_that_the_user_may_not_read(mailbox: Mailbox) -> None:
    arrive(mailbox)
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(shared=False)
    trial = try_rule(rule_of(mailbox.firm, enabled=False), user_id=None)
    assert (trial.looked_at, trial.matched) == (0, [])


def test_applied_to_old_mail_it_acts_once_on_each_match(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mail.services.rules.backlog.PAGE", 2)
    for number in range(5):
        arrive(mailbox, f"Invoice {number}" if number % 2 == 0 else f"Lunch {number}")
    drain()
    rule = rule_of(mailbox.firm)
    apply_to_old_mail(rule, days=30)
    assert all(isinstance(outcome, Completed) for outcome in drain())
    assert sorted(
        action.message.subject
        for action in stored(Action, select_related=("message",))
        if action.rule_id == rule.pk
    ) == ["Invoice 0", "Invoice 2", "Invoice 4"]
    assert len(jobs("apply_rule", live=False)) == 3

    apply_to_old_mail(rule, days=30)
    drain()
    assert len(actions_of(rule)) == 3
    inbox = mailbox.gmail.list_messages("in:inbox", max_results=100).get("messages", [])
    assert len(inbox) == 2


def test_what_suggests_only_is_not_written_to(mailbox: Mailbox) -> None:
    arrived = arrive(mailbox)
    rule = rule_of(mailbox.firm)
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(mode="suggest")
    mailbox.reload()
    judge(mailbox, arrived)
    apply_to_old_mail(rule, days=30)
    drain()
    assert stored(Action) == []
    assert stored(Decision)[0].explanations["rules"][0]["name"] == rule.name


@pytest.mark.parametrize(
    ("settings_of", "field"),
    [
        ({"name": " "}, "name"),
        ({"priority": -1}, "priority"),
        ({"category": "urgent"}, "category"),
        ({"safe_mode": "never"}, "safe_mode"),
        ({"scope": "world"}, "scope"),
        ({"scope": "account"}, "account_id"),
        ({"scope": "account", "account_id": uuid4()}, "account_id"),
        ({"scope": "domain"}, "scope_ref"),
        ({"scope": "domain", "scope_ref": "a@b.example"}, "scope_ref"),
        ({"scope": "sender", "scope_ref": "b.example"}, "scope_ref"),
        ({"scope_ref": "b.example"}, "scope_ref"),
        ({"actions": []}, "actions"),
        ({"actions": [{"action": "explode", "parameters": {}}]}, "actions.0"),
        ({"actions": [{"action": "apply_label", "parameters": {}}]}, "actions.0"),
        ({"actions": [ARCHIVE] * 11}, "actions"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(
    mailbox: Mailbox, settings_of: dict[str, Any], field: str
) -> None:
    with pytest.raises(RuleInvalid) as refused:
        rule_of(mailbox.firm, **settings_of)
    assert field in {one["field"] for one in refused.value.errors}
    assert stored(Rule) == []


def test_a_name_is_taken_once_in_a_firm(mailbox: Mailbox, other_mailbox: Mailbox) -> None:
    rule = rule_of(mailbox.firm, name="Bills", enabled=False)
    with pytest.raises(RuleInvalid, match="another rule"):
        rule_of(mailbox.firm, name="Bills")
    assert change_rule(rule, name="Bills", priority=2).priority == 2


@pytest.mark.req("T-05")
def test_everything_done_to_a_rule_is_audited(mailbox: Mailbox) -> None:
    rule = rule_of(mailbox.firm)
    switch_off_rule(rule, reason="too eager")
    change_rule(rule, priority=3)
    delete_rule(rule, reason="not needed")
    assert [entry.act for entry in stored(AuditEntry)] == [
        "rule.create", "rule.try", "rule.enable", "rule.disable", "rule.change", "rule.delete",
    ]  # fmt: skip
    assert stored(Rule) == []


@pytest.mark.req("M-13", "M-14")
@pytest.mark.parametrize(
    ("action", "parameters"),
    [
        ("delete", {}),
        ("forward", {"to": "books@acme.example"}),
        ("auto_reply", {"body": "Thanks."}),
    ],
)
@pytest.mark.parametrize("yes", [True, False])
def test_what_is_dangerous_waits_for_a_yes(
    mailbox: Mailbox, action: str, parameters: dict[str, Any], yes: bool
) -> None:
    asked = {"action": action, "parameters": parameters}
    rule = rule_of(mailbox.firm, actions=[asked], safe_mode="always_safe")
    arrived = arrive(mailbox)
    judge(mailbox, arrived)
    drain()
    approval = only(stored(Approval))
    waiting = only([one for one in stored(Action) if one.rule_id == rule.pk])
    assert waiting.status == ActionStatus.APPROVED_PENDING
    assert "dangerous" in approval.reasons
    assert "TRASH" not in mailbox.labels(arrived)

    decided = (approve if yes else reject)(approval, by=person(mailbox))
    assert decided.refused == ""
    with later(3600):
        drain()
    done = only(stored(Action), pk=waiting.pk)
    sent = mailbox.gmail.list_messages("in:sent", max_results=10).get("messages", [])
    if yes:
        assert done.status == ActionStatus.COMPLETED, done.error
        assert len(sent) == (action != "delete")
        if action == "delete":
            assert "TRASH" in mailbox.labels(arrived)
    else:
        assert done.status == ActionStatus.REJECTED
        assert sent == []


@pytest.mark.req("M-13")
def test_a_rule_may_spare_its_actions_the_check_of_danger(mailbox: Mailbox) -> None:
    asked = {"action": "delete", "parameters": {}}
    rule_of(mailbox.firm, actions=[asked], safe_mode="dangerous_override")
    arrived = arrive(mailbox)
    judge(mailbox, arrived)
    drain()
    assert "TRASH" in mailbox.labels(arrived)
    assert stored(Approval) == []


@pytest.mark.parametrize("label", ["SPAM", "TRASH"])
def test_what_is_discarded_is_no_old_mail_of_a_rules(mailbox: Mailbox, label: str) -> None:
    arrived = arrive(mailbox)
    mailbox.gmail.modify_message(arrived, add=[label], remove=["INBOX"])
    with firm_scope(mailbox.firm):
        Message.objects.update(labels=[label])
    forward = {"action": "forward", "parameters": {"to": ["books@firm.example"]}}
    rule = rule_of(mailbox.firm, actions=[forward], safe_mode="dangerous_override")

    assert try_rule(rule, user_id=None).matched == []
    apply_to_old_mail(rule, days=30)
    drain()

    assert stored(OutboundMessage) == []


@pytest.mark.parametrize("of_firm", [True, False])
@pytest.mark.parametrize("label", ["🤖 AI/Pause", "🤖 ai/needs response", "Mailroom/Snoozed"])
def test_a_rule_puts_on_no_label_that_is_an_order(
    mailbox: Mailbox, of_firm: bool, label: str
) -> None:
    action = {"action": "apply_label", "parameters": {"label": label}}
    where = {} if of_firm else {"scope": Scope.ACCOUNT, "account_id": mailbox.account.pk}
    with pytest.raises(RuleInvalid) as caught:
        rule_of(mailbox.firm, actions=[action], **where)
    assert [one["field"] for one in caught.value.errors] == ["actions.0"]


def test_a_label_that_is_an_order_is_known_by_its_id_too(mailbox: Mailbox) -> None:
    label_id = ensure_label(mailbox.account, mailbox.gmail, PAUSE_LABEL)
    action = {"action": "apply_label", "parameters": {"label": label_id}}
    for where in ({}, {"scope": Scope.ACCOUNT, "account_id": mailbox.account.pk}):
        with pytest.raises(RuleInvalid) as caught:
            rule_of(mailbox.firm, actions=[action], **where)
        assert [one["field"] for one in caught.value.errors] == ["actions.0"]
