"""A rule acts only on what the person who enabled it may read."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.operations.enqueue import enqueue
from mail.models import (
    Action,
    ActionStatus,
    Approval,
    Decision,
    MailAccount,
    Route,
    RoutingRule,
    Rule,
    Scope,
)
from mail.services.approvals.approvals import approve
from mail.services.mailboxes.content_access import break_glass, grant_content
from mail.services.rules.operations import (
    apply_to_old_mail,
    create_rule,
    enable_rule,
    matches_of,
    try_rule,
)
from mail.services.rules.routing import hand_over
from mail.services.rules.routing_operations import change_routing_rule, create_routing_rule
from tenants.audit import SERVICE, Actor
from tenants.models import Membership, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.approval_kit import person
from tests.mail.draft_kit import asked, prepared
from tests.mail.mail_kit import OWNER, Mailbox, drain, jobs, letter, only, stored, without_drafts
from tests.mail.send_kit import at_once, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-23")]

PRICES = {"type": "subject_contains", "value": "price"}
CUSTOMER = {"type": "sender_domain", "value": "customer.example"}
STAR = {"action": "star", "parameters": {}}
FORWARD = {"action": "forward", "parameters": {"to": ["admin@elsewhere.example"]}}


@pytest.fixture
def private(mailbox: Mailbox) -> Mailbox:
    """Return a private mailbox with an owner, which sends at once and drafts nothing."""
    at_once(mailbox)
    prepared(mailbox)
    without_drafts(mailbox)
    owner = UserFactory(
        username=OWNER, email=OWNER, member_of=mailbox.firm, member_of__role=Role.OPERATOR
    )
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False, owner=owner)
    mailbox.reload()
    return mailbox


@pytest.fixture
def admin(private: Mailbox) -> Actor:
    """Return an admin of the firm, who may not read the mailbox."""
    return person(private, Role.ADMIN)


def owner_of(mailbox: Mailbox) -> Actor:
    return Actor("admin", mailbox.account.owner)


def enabled(mailbox: Mailbox, by: Actor, conditions: Any, **settings: Any) -> Rule:
    """Make a rule, try it and enable it."""
    given = {"name": f"Rule {len(stored(Rule))}", "actions": [STAR], **settings}
    rule = create_rule(mailbox.firm.pk, by=by, conditions=conditions, **given)
    try_rule(rule, user_id=by.user_id, by=by)
    return enable_rule(rule, by=by)


def acted(rule: Rule) -> list[Any]:
    return [one for one in stored(Action) if one.rule_id == rule.pk]


@pytest.mark.parametrize(
    "conditions",
    [
        PRICES,
        {"op": "not", "children": [{"type": "subject_regex", "value": "invoice"}]},
        {"op": "or", "children": [CUSTOMER, PRICES]},
        {"type": "header_match", "header": "Subject", "pattern": "price"},
        {"type": "header_match", "header": "MIME-Version", "pattern": "1"},
        {"type": "label_present", "label": "INBOX"},
    ],
)
def test_a_rule_of_who_may_not_read_asks_nothing_that_they_are_not_shown(
    private: Mailbox, admin: Actor, conditions: Any
) -> None:
    rule = enabled(private, admin, conditions, category="payment_request")
    asked(private)
    assert acted(rule) == []
    (decision,) = stored(Decision)
    assert (decision.source, decision.explanations["rules"]) == ("offline", [])

    apply_to_old_mail(rule, days=30)
    drain()
    assert acted(rule) == []


@pytest.mark.parametrize(
    "conditions",
    [
        CUSTOMER,
        {"type": "sender_email", "value": "anna@customer.example"},
        {"op": "not", "children": [{"type": "sender_domain", "value": "nowhere.example"}]},
        {"type": "header_match", "header": "To", "pattern": "owner"},
    ],
)
def test_what_everybody_of_the_firm_is_shown_any_rule_may_ask(
    private: Mailbox, admin: Actor, conditions: Any
) -> None:
    rule = enabled(private, admin, conditions, category="payment_request")
    asked(private)
    assert [one.action_type for one in acted(rule)] == ["star"]
    assert only(stored(Decision)).category == "payment_request"


@pytest.mark.req("M-13")
def test_what_such_a_rule_sends_waits_for_a_reader_whatever_it_spares(
    private: Mailbox, admin: Actor
) -> None:
    rule = enabled(
        private, admin, CUSTOMER, actions=[FORWARD], safe_mode="dangerous_override", category="fyi"
    )
    asked(private)
    assert sent(private) == []
    assert only(acted(rule)).status == ActionStatus.APPROVED_PENDING
    approval = only(stored(Approval))
    assert "dangerous" in approval.reasons

    assert approve(approval, by=admin).refused
    drain()
    assert sent(private) == []
    assert not approve(approval, by=owner_of(private)).refused
    drain()
    assert [mail["To"] for mail in sent(private)] == ["admin@elsewhere.example"]


@pytest.mark.req("M-13")
@pytest.mark.parametrize("who", ["owner", "granted"])
def test_a_reader_of_the_mailbox_may_spare_the_checks(
    private: Mailbox, admin: Actor, who: str
) -> None:
    by = owner_of(private) if who == "owner" else admin
    if who == "granted":
        grant_content(private.account, admin.user, by=SERVICE)
    enabled(private, by, PRICES, actions=[FORWARD], safe_mode="dangerous_override")
    asked(private)
    assert len(sent(private)) == 1


def test_who_no_longer_reads_or_left_the_firm_has_rules_that_look_no_further(
    private: Mailbox, admin: Actor
) -> None:
    grant_content(private.account, admin.user, by=SERVICE)
    rule = enabled(private, admin, PRICES)
    with firm_scope(private.firm):
        Membership.objects.filter(user=admin.user).delete()
    asked(private)
    assert acted(rule) == []
    with firm_scope(private.firm):
        Membership.objects.create(firm=private.firm, user=admin.user, role=Role.ADMIN)
    # The content grant ended with the membership, and is not restored with it.
    asked(private, message_id="<q2@customer.example>")
    assert acted(rule) == []
    grant_content(private.account, admin.user, by=SERVICE)
    asked(private, message_id="<q3@customer.example>")
    assert len(acted(rule)) == 1


def test_a_rule_enabled_under_break_glass_reads_mail_no_longer_than_its_hour(
    private: Mailbox, admin: Actor
) -> None:
    break_glass(private.account, reason="an emergency", by=admin)
    one_mailbox = {"scope": Scope.ACCOUNT, "account_id": private.account.pk}
    rule = enabled(private, admin, PRICES, **one_mailbox)
    with firm_scope(private.firm):
        private.account.content_grants.all().delete()
    asked(private)
    assert acted(rule) == []


def test_a_rule_that_nobody_is_known_to_have_enabled(private: Mailbox) -> None:
    firm_wide = enabled(private, SERVICE, PRICES, priority=1)
    one_mailbox = {"scope": Scope.ACCOUNT, "account_id": private.account.pk}
    own = enabled(private, SERVICE, PRICES, priority=2, **one_mailbox)
    asked(private)
    assert (acted(firm_wide), len(acted(own))) == ([], 1)


def test_a_shared_mailbox_is_open_to_every_rule(private: Mailbox, admin: Actor) -> None:
    with firm_scope(private.firm):
        MailAccount.objects.update(shared=True)
    private.reload()
    rule = enabled(private, admin, PRICES)
    asked(private)
    assert len(acted(rule)) == 1


@pytest.mark.req("M-10")
@pytest.mark.parametrize("shared", [False, True])
def test_no_job_applies_the_rule_of_one_mailbox_to_another(private: Mailbox, shared: bool) -> None:
    developer = person(private, Role.DEVELOPER)
    with firm_scope(private.firm):
        own = MailAccount.objects.create(address="dev@acme.example", owner=developer.user)
        MailAccount.objects.filter(pk=private.account.pk).update(shared=shared)
    asked(private)
    one_mailbox = {"scope": Scope.ACCOUNT, "account_id": own.pk}
    spared = {"actions": [FORWARD, STAR], "safe_mode": "dangerous_override"}
    rule = enabled(private, developer, CUSTOMER, **spared, **one_mailbox)
    payload = {"account_id": str(private.account.pk), "rule_id": str(rule.pk), "days": 3650}
    enqueue("apply_rule", payload, firm=private.firm, by=developer)
    drain()
    assert jobs("apply_rule", live=False)
    assert acted(rule) == []
    assert sent(private) == []


def test_a_try_says_where_the_rule_will_do_less(private: Mailbox, admin: Actor) -> None:
    rule = create_rule(private.firm.pk, name="Prices", conditions=PRICES, actions=[STAR])
    limits = try_rule(rule, user_id=admin.user_id, by=admin).limits
    assert limits == (
        "It does not read mail in 1 private mailbox: ada@acme.example may not read it."
    )
    own = owner_of(private)
    assert try_rule(rule, user_id=own.user_id, by=own).limits == ""
    with firm_scope(private.firm):
        assert matches_of(rule, admin.user_id).looked_at == 0


def test_a_try_says_where_what_is_dangerous_waits(private: Mailbox, admin: Actor) -> None:
    spared = {"actions": [FORWARD], "safe_mode": "dangerous_override"}
    rule = create_rule(private.firm.pk, name="Out", conditions=CUSTOMER, **spared)
    assert try_rule(rule, user_id=admin.user_id, by=admin).limits == (
        "Dangerous actions (forward) wait for approval in 1 private mailbox: "
        "ada@acme.example may not read it."
    )


@pytest.mark.req("M-08")
@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("match", "routed"),
    [
        ({"subject_contains": "price"}, False),
        ({"header_match": {"MIME-Version": "1"}}, False),
        ({"forwarded_from": "anna@customer.example"}, False),
        ({"sender_domain": "customer.example"}, True),
        ({"header_match": {"to": "owner"}}, True),
        ({"all": True}, True),
    ],
)
def test_a_routing_rule_looks_no_further_than_who_made_it(
    private: Mailbox, admin: Actor, match: dict[str, Any], routed: bool
) -> None:
    private.receive(letter("Price list"))
    messages = private.store_all()
    agent = {"match": match, "route": Route.AGENT, "profile": "shop"}
    rule = create_routing_rule(private.firm.pk, by=admin, name="Shop", **agent)
    with firm_scope(private.firm):
        hand_over(private.account, messages)
    assert bool(jobs("agent_process")) is routed

    own = owner_of(private)
    change_routing_rule(rule, by=own, name="My shop")
    assert only(stored(RoutingRule)).enabled_by_id == admin.user_id
    change_routing_rule(rule, by=own, profile="store")
    with firm_scope(private.firm):
        hand_over(private.account, messages)
    assert jobs("agent_process")
