"""Rules over REST: made, changed, tried, enabled, applied, deleted; bad input names its field."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mail.models import Direction, Rule
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, jobs, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-10", "M-22")]

ROOT = "/api/v1/mail/rules/"
INVOICES: dict[str, Any] = {
    "name": "Invoices",
    "conditions": {"type": "subject_contains", "value": "invoice"},
    "category": "payment_request",
    "actions": [{"action": "star", "parameters": {}}],
}


class Api:
    """A member of a firm who sends requests with an API key."""

    root = ROOT

    def __init__(self, firm: Firm, role: Role = Role.ADMIN) -> None:
        from tests.jobs.api.conftest import key_for

        self.headers = {"Authorization": f"Bearer {key_for(firm, role)}"}

    def get(self, path: str = "") -> Any:
        return Client().get(self.root + path, headers=self.headers)

    def send(self, path: str = "", *, method: str = "post", **body: object) -> Any:
        return getattr(Client(), method)(
            self.root + path, body, content_type="application/json", headers=self.headers
        )


def test_a_rule_from_its_making_to_its_end(mailbox: Mailbox) -> None:
    api = Api(mailbox.firm)
    mailbox.receive(letter("Invoice 7"))
    mailbox.receive(letter("Lunch?"))
    mailbox.store_all()
    made = api.send(**INVOICES)
    assert made.status_code == 201, made.content
    rule = made.json()
    assert (rule["scope"], rule["enabled"], rule["tried_at"]) == ("global", False, None)
    assert rule["in_words"] == ["subject contains: invoice"]
    assert api.get().json()["results"] == [rule]

    path = f"{rule['id']}/"
    assert api.send(path + "enable/").status_code == 409
    trial = api.send(path + "try/").json()
    assert trial["looked_at"] == 2
    assert [one["subject"] for one in trial["matched"]] == ["Invoice 7"]
    assert api.send(path + "enable/", reason="fine").json()["enabled"]

    assert api.send(path, method="patch", priority=5).json()["enabled"]
    changed = api.send(path, method="patch", category=None).json()
    assert (changed["category"], changed["enabled"]) == (None, False)
    assert api.send(path + "apply/", days=30).status_code == 409
    api.send(path + "try/")
    api.send(path + "enable/")
    applied = api.send(path + "apply/", days=30)
    assert applied.status_code == 202
    assert applied.json()["job_ids"] == [str(job.pk) for job in jobs("apply_rule")]

    assert not api.send(path + "disable/").json()["enabled"]
    assert api.send(path + "delete/").json()["id"] == rule["id"]
    assert api.get(path).status_code == 404
    assert stored(Rule) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"conditions": {"type": "subject_regex", "value": "("}}, "conditions.value"),
        ({"conditions": {"op": "and", "children": []}}, "conditions.children"),
        (
            {
                "conditions": {
                    "op": "not",
                    "children": [{"type": "label_present", "label": "Payed"}],
                }
            },
            "conditions.children.0.label",
        ),
        (
            {"actions": [{"action": "apply_label", "parameters": {"label": "Label_99"}}]},
            "actions.0",
        ),
        ({"actions": [{"action": "explode", "parameters": {}}]}, "actions.0"),
        ({"scope": "domain"}, "scope_ref"),
        ({"scope": "account", "account_id": str(uuid4())}, "account_id"),
        ({"category": "urgent"}, "category"),
        ({"name": "x" * 101}, "name"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_input_names_its_field(mailbox: Mailbox, change: dict[str, Any], field: str) -> None:
    answer = Api(mailbox.firm).send(**{**INVOICES, **change})
    assert answer.status_code == 400
    assert field in {fault["field"] for fault in answer.json()["errors"]}, answer.json()
    assert stored(Rule) == []


def test_only_an_admin_or_the_mailboxes_owner_changes_rules(mailbox: Mailbox) -> None:
    admin, operator = Api(mailbox.firm), Api(mailbox.firm, Role.OPERATOR)
    assert operator.send(**INVOICES).status_code == 403
    path = f"{admin.send(**INVOICES).json()['id']}/"
    assert operator.get(path).status_code == 200
    for verb in ("try/", "enable/", "disable/", "delete/"):
        assert operator.send(path + verb).status_code == 403
    assert operator.send(path, method="patch", priority=1).status_code == 403


@pytest.mark.req("T-03", "M-23")
def test_rules_of_other_firms_and_of_private_mailboxes_are_not_there(
    mailbox: Mailbox, other_firm: Firm
) -> None:
    admin = Api(mailbox.firm)
    own = {"scope": "account", "account_id": str(mailbox.account.pk)}
    path = f"{admin.send(**INVOICES, **own).json()['id']}/"
    stranger = Api(other_firm)
    assert stranger.get(path).status_code == 404
    assert stranger.get().json()["results"] == []
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(shared=False)
    assert admin.get(path).status_code == 404
    assert admin.get().json()["results"] == []


@pytest.mark.req("M-23")
def test_an_admin_makes_no_rule_or_direction_for_a_mailbox_they_may_not_read(
    mailbox: Mailbox,
) -> None:
    api = Api(mailbox.firm)
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(shared=False)
    own = {"scope": "account", "account_id": str(mailbox.account.pk)}
    everybodys = api.send(**INVOICES).json()
    refused = [
        api.send(**{**INVOICES, "name": "Spy"}, **own),
        api.send(f"{everybodys['id']}/", method="patch", **own),
    ]
    api.root = "/api/v1/mail/directions/"
    refused.append(api.send(text="Call it FYI.", **own))
    assert [one.status_code for one in refused] == [400, 400, 400]
    assert {one.json()["errors"][0]["field"] for one in refused} == {"account_id"}
    assert [one.account_id for one in stored(Rule)] == [None]
    assert stored(Direction) == []


@pytest.mark.req("M-23")
def test_a_rule_says_who_enabled_it_and_where_it_does_not_look(mailbox: Mailbox) -> None:
    api = Api(mailbox.firm)
    path = f"{api.send(**INVOICES).json()['id']}/"
    assert api.send(path + "try/").json()["limits"] is None
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(shared=False)
    tried = api.send(path + "try/").json()
    assert "does not read mail in 1 private mailbox" in tried["limits"]
    rule = api.send(path + "enable/").json()
    assert rule["limits"] == tried["limits"]
    assert rule["enabled_by"] in rule["limits"]
    assert api.get().json()["results"] == [rule]

    api.root = "/api/v1/mail/routing-rules/"
    routing = {"name": "Shop", "match": {"subject_contains": "order"}, "route": "pipeline"}
    made = api.send(**routing).json()
    assert (made["enabled_by"], made["limits"]) == (rule["enabled_by"], rule["limits"])
    path = f"{made['id']}/"
    assert api.send(path, method="patch", match={"all": True}).json()["limits"] is None


@pytest.mark.parametrize(
    ("root", "body", "enabled"),
    [
        (ROOT, INVOICES, False),
        (
            "/api/v1/mail/routing-rules/",
            {"name": "Shop", "match": {"subject_contains": "order"}, "route": "pipeline"},
            True,
        ),
    ],
)
def test_a_list_asks_once_where_its_rules_do_not_look(
    mailbox: Mailbox, root: str, body: dict[str, Any], enabled: bool
) -> None:
    api = Api(mailbox.firm)
    api.root = root
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(shared=False)

    def queries_with(name: str) -> int:
        made = api.send(**body | {"name": name})
        assert made.status_code == 201, made.content
        if not enabled:
            path = f"{made.json()['id']}/"
            api.send(path + "try/")
            api.send(path + "enable/")
        with CaptureQueriesContext(connection) as queries:
            listed = api.get().json()["results"]
        assert all("1 private mailbox" in one["limits"] for one in listed)
        return len(queries)

    assert queries_with("First") == queries_with("Second") == queries_with("Third")
