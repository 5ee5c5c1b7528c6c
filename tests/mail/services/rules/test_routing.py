"""A new message goes where the first matching routing rule says, otherwise to the pipeline."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse

from mail.errors import RoutingInvalid
from mail.models import Decision, EventType, MailAccount, MailEvent, RoutingRule
from mail.services.mailboxes.accounts import open_account
from mail.services.rules.routing import NO_MODEL
from mail.services.rules.routing_operations import (
    change_routing_rule,
    create_routing_rule,
    delete_routing_rule,
)
from mail.services.syncing.ingest import ingest_message
from mail.services.syncing.sync import sync_mailbox
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import audit_entries
from tests.mail.api.test_labels import Api
from tests.mail.mail_kit import Mailbox, drain, jobs, letter, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-08")]

SHOP = {"subject_contains": "order"}


def rule(mailbox: Mailbox, **settings: Any) -> RoutingRule:
    given = {"name": f"Rule {len(stored(RoutingRule))}", "match": SHOP, **settings}
    return create_routing_rule(mailbox.firm.pk, **given)


def to_agent(mailbox: Mailbox, **settings: Any) -> RoutingRule:
    return rule(mailbox, route="agent", profile="shop", **settings)


def arrive(mailbox: Mailbox, subject: str = "Order 17", **headers: Any) -> str:
    arrived = mailbox.receive(letter(subject, **headers))
    ingest_message(mailbox.account, mailbox.gmail, arrived)
    return arrived


def routed() -> list[dict[str, Any]]:
    return [one.detail for one in stored(MailEvent) if one.event_type == EventType.ROUTED]


def test_without_rules_everything_goes_to_the_pipeline(mailbox: Mailbox) -> None:
    arrive(mailbox)
    assert [one.job_type for one in jobs()] == ["classify"]
    assert routed() == []


@pytest.mark.usefixtures("agent")
def test_a_match_goes_to_the_agent_with_its_profile(mailbox: Mailbox) -> None:
    made = to_agent(mailbox)
    message = mailbox.message(arrive(mailbox))
    (handed,) = jobs()
    assert handed.job_type == "agent_process"
    assert {
        name: handed.payload[name] for name in ("account_id", "message_id", "thread_id", "profile")
    } == {
        "account_id": str(mailbox.account.pk),
        "message_id": str(message.pk),
        "thread_id": str(message.thread_id),
        "profile": "shop",
    }
    assert routed() == [{"rule_id": str(made.pk), "route": "agent", "profile": "shop"}]
    arrive(mailbox, "Lunch?")
    assert sorted(one.job_type for one in jobs()) == ["agent_process", "classify"]


@pytest.mark.usefixtures("agent")
def test_a_message_is_handed_to_an_agent_once(mailbox: Mailbox) -> None:
    to_agent(mailbox)
    arrived = arrive(mailbox)
    drain()
    ingest_message(mailbox.account, mailbox.gmail, arrived)
    assert jobs() == []
    assert stored(Decision) == []


@pytest.mark.usefixtures("agent")
def test_the_first_rule_by_position_wins(mailbox: Mailbox) -> None:
    to_agent(mailbox, position=20)
    first = rule(mailbox, position=10, match={"sender_domain": "customer.example"})
    arrive(mailbox)
    assert [one.job_type for one in jobs()] == ["classify"]
    assert routed() == [{"rule_id": str(first.pk), "route": "pipeline"}]


@pytest.mark.usefixtures("agent")
def test_rules_of_other_mailboxes_and_disabled_ones_are_not_asked(
    mailbox: Mailbox, other_firm: Firm
) -> None:
    other = open_account(mailbox.firm, "other@acme.example")
    to_agent(mailbox, account_id=other.pk)
    to_agent(mailbox, enabled=False)
    create_routing_rule(other_firm.pk, name="Theirs", match=SHOP, route="agent", profile="x")
    arrive(mailbox)
    assert [one.job_type for one in jobs()] == ["classify"]


def test_without_a_language_model_the_pipeline_takes_it_and_the_event_says_so(
    mailbox: Mailbox,
) -> None:
    made = to_agent(mailbox)
    arrive(mailbox)
    assert [one.job_type for one in jobs()] == ["classify"]
    assert routed() == [
        {"rule_id": str(made.pk), "route": "pipeline", "profile": "shop", "reason": NO_MODEL}
    ]


@pytest.mark.usefixtures("agent")
def test_rules_see_headers_and_text_which_history_does_not_name(mailbox: Mailbox) -> None:
    to_agent(
        mailbox, match={"header_match": {"X-Shop": "^yes$"}, "forwarded_from": "jan@x.example"}
    )
    sync_mailbox(mailbox.account, mailbox.gmail)
    raw = letter("Hello", "From: jan@x.example", X_Shop="yes")
    mailbox.receive(raw)
    sync_mailbox(mailbox.account, mailbox.gmail)
    drain()
    assert [one.job_type for one in jobs(live=False)] == ["ingest.gmail", "agent_process"]


@pytest.mark.usefixtures("agent")
def test_ones_own_mail_goes_to_the_pipeline(mailbox: Mailbox) -> None:
    to_agent(mailbox, match={"all": True})
    sent = mailbox.receive(letter("Re: Order", sender=mailbox.account.address), labels=["SENT"])
    ingest_message(mailbox.account, mailbox.gmail, sent)
    assert [one.job_type for one in jobs()] == ["classify"]


@pytest.mark.usefixtures("agent")
def test_mail_that_comes_back_to_the_inbox_is_routed_then(mailbox: Mailbox) -> None:
    to_agent(mailbox)
    sync_mailbox(mailbox.account, mailbox.gmail)
    arrived = mailbox.receive(letter("Order 1"), labels=["STARRED"])
    ingest_message(mailbox.account, mailbox.gmail, arrived)
    assert jobs() == []
    mailbox.gmail.modify_message(arrived, add=["INBOX"])
    sync_mailbox(mailbox.account, mailbox.gmail)
    assert "agent_process" in [one.job_type for one in jobs()]


@pytest.mark.usefixtures("agent")
def test_a_rule_that_can_no_longer_be_used_is_switched_off_and_the_others_go_on(
    mailbox: Mailbox,
) -> None:
    broken, sound = to_agent(mailbox, position=1), to_agent(mailbox, position=2)
    with all_firms("test"):
        RoutingRule.objects.filter(pk=broken.pk).update(match={"header_match": {"X": "("}})
    arrive(mailbox)
    assert [one.job_type for one in jobs()] == ["agent_process"]
    rows = {row.pk: row for row in stored(RoutingRule)}
    assert not rows[broken.pk].enabled
    assert "pattern" in rows[broken.pk].disabled_reason
    assert rows[sound.pk].enabled
    assert [entry.act for entry in audit_entries(broken.pk)] == [
        "routing_rule.create", "routing_rule.disable",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": " "}, "name"),
        ({"position": -1}, "position"),
        ({"route": "moon"}, "route"),
        ({"route": "agent"}, "profile"),
        ({"profile": "shop"}, "profile"),
        ({"account_id": UUID(int=7)}, "account_id"),
        ({"match": {"sender_domain": "@"}}, "match.sender_domain"),
    ],
    ids=str,
)
def test_bad_settings_are_named(mailbox: Mailbox, change: dict[str, Any], field: str) -> None:
    with pytest.raises(RoutingInvalid) as raised:
        rule(mailbox, **change)
    assert [fault["field"] for fault in raised.value.errors] == [field]


def test_two_rules_do_not_share_a_name(mailbox: Mailbox) -> None:
    rule(mailbox, name="Shop")
    with pytest.raises(RoutingInvalid, match="name"):
        rule(mailbox, name="Shop")


def test_changes_and_deletions_are_audited(mailbox: Mailbox) -> None:
    made = rule(mailbox)
    change_routing_rule(made, position=7, reason="earlier")
    delete_routing_rule(made, reason="gone")
    acts = [(entry.act, entry.reason) for entry in audit_entries(made.pk)]
    assert acts == [
        ("routing_rule.create", ""),
        ("routing_rule.change", "earlier"),
        ("routing_rule.delete", "gone"),
    ]
    assert stored(RoutingRule) == []


@pytest.mark.req("M-22")
def test_over_rest_from_its_making_to_its_end(mailbox: Mailbox) -> None:
    api = Api()
    body = {"name": "Shop", "match": SHOP, "route": "agent", "profile": "shop"}
    refused = api(mailbox.firm, Role.OPERATOR, "post", "routing-rules/", body)
    assert refused.status_code == 403
    wrong = api(mailbox.firm, Role.ADMIN, "post", "routing-rules/", {**body, "match": {"all": 1}})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "match.all")
    made = api(mailbox.firm, Role.ADMIN, "post", "routing-rules/", body)
    assert made.status_code == 201
    path = f"routing-rules/{made.json()['id']}/"
    assert api(mailbox.firm, Role.VIEWER, "get", path).json() == made.json()
    changed = api(mailbox.firm, Role.ADMIN, "patch", path, {"enabled": False, "reason": "x"})
    assert changed.json() == {**made.json(), "enabled": False}
    assert len(api(mailbox.firm, Role.VIEWER, "get", "routing-rules/").json()["results"]) == 1
    assert api(mailbox.firm, Role.ADMIN, "post", f"{path}delete/", {}).status_code == 200
    assert api(mailbox.firm, Role.VIEWER, "get", path).status_code == 404


@pytest.mark.req("M-23")
def test_rules_of_a_private_mailbox_are_for_its_readers(mailbox: Mailbox) -> None:
    made = rule(mailbox, account_id=mailbox.account.pk)
    with all_firms("test"):
        MailAccount.objects.filter(pk=mailbox.account.pk).update(shared=False)
    path = f"routing-rules/{made.pk}/"
    assert Api()(mailbox.firm, Role.ADMIN, "get", path).status_code == 404


def test_in_the_admin_a_rule_is_made_changed_and_deleted(mailbox: Mailbox) -> None:
    user = UserFactory(is_staff=True, member_of=mailbox.firm, member_of__role=Role.ADMIN)
    client = Client()
    client.force_login(user)
    new = reverse("admin:mail_routingrule_new")
    assert client.get(new).status_code == 200
    form = {
        "name": "Shop", "position": "10", "route": "agent", "profile": "shop", "enabled": "on",
        "match": '{"sender_domain": "shop.example"}', "account_id": "",
    }  # fmt: skip
    bad = client.post(new, {**form, "match": '{"sender_domain": "@"}'})
    assert bad.status_code == 400
    assert "sender_domain" in bad.content.decode()
    assert client.post(new, {**form, "match": "{"}).status_code == 400
    assert client.post(new, form).status_code == 302
    (made,) = stored(RoutingRule)
    assert (made.match, made.profile) == ({"sender_domain": "shop.example"}, "shop")

    page = client.get(reverse("admin:mail_routingrule_change", args=[made.pk]))
    assert "Agent: shop" in page.content.decode()
    edit = reverse("admin:mail_routingrule_edit", args=[made.pk])
    seen = client.get(edit).context["seen"]
    assert client.post(edit, {**form, "position": "5", "seen": seen}).status_code == 302
    (changed,) = stored(RoutingRule)
    assert (changed.position, changed.match) == (5, made.match)
    remove = reverse("admin:mail_routingrule_remove", args=[made.pk])
    seen = client.get(remove).context["seen"]
    assert client.post(remove, {"seen": seen}).status_code == 302
    assert stored(RoutingRule) == []
