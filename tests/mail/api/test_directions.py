"""Directions over REST and in the admin: who may make, change and delete them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from mail.models import Direction
from tenants.models import Role
from tests.jobs.admin.pages import audit_entries
from tests.mail.admin.test_rules import browser_of
from tests.mail.api.test_rules import Api as RulesApi
from tests.mail.mail_kit import Mailbox, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-11", "M-22")]


class Api(RulesApi):
    """A member of a firm who sends requests with an API key."""

    root = "/api/v1/mail/directions/"


def test_a_direction_from_its_making_to_its_end(mailbox: Mailbox) -> None:
    api = Api(mailbox.firm)
    made = api.send(text="  Mail from our bank\nis never advertising. ", kind="llm_rule")
    assert made.status_code == 201, made.content
    direction = made.json()
    assert direction["text"] == "Mail from our bank is never advertising."
    assert (direction["scope"], direction["enabled"]) == ("global", True)
    writer = direction["enabled_by"]
    assert get_user_model().objects.get(username=writer).is_active
    path = f"{direction['id']}/"
    assert api.get(path).json() == direction
    changed = api.send(path, method="patch", enabled=False, reason="holiday").json()
    assert (changed["enabled"], changed["enabled_by"]) == (False, writer)
    assert api.send(path + "delete/").json()["id"] == direction["id"]
    assert stored(Direction) == []
    assert [entry.act for entry in audit_entries(direction["id"])] == [
        "direction.create", "direction.change", "direction.delete",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": " "}, "text"),
        ({"text": "x" * 2001}, "text"),
        ({"text": "a", "kind": "law"}, "kind"),
        ({"text": "a", "scope": "sender", "scope_ref": "b.example"}, "scope_ref"),
    ],
)
def test_bad_input_names_its_field(mailbox: Mailbox, body: dict[str, Any], field: str) -> None:
    answer = Api(mailbox.firm).send(**body)
    assert answer.status_code == 400
    assert field in {fault["field"] for fault in answer.json()["errors"]}


def test_only_who_may_changes_one(mailbox: Mailbox) -> None:
    operator = Api(mailbox.firm, Role.OPERATOR)
    assert operator.send(text="a").status_code == 403
    path = f"{Api(mailbox.firm).send(text='a').json()['id']}/"
    assert operator.send(path, method="patch", enabled=False).status_code == 403
    assert operator.send(path + "delete/").status_code == 403


def test_in_the_admin(mailbox: Mailbox) -> None:
    client = browser_of(mailbox)
    form = {
        "text": "Customers come first.",
        "kind": "direction",
        "account_id": str(mailbox.account.pk),
        "scope": "account",
        "scope_ref": "",
        "enabled": "on",
        "seen": "",
    }
    assert client.post(reverse("admin:mail_direction_new"), form, follow=True).status_code == 200
    direction = only(stored(Direction))
    assert direction.account_id == mailbox.account.pk
    edit = reverse("admin:mail_direction_edit", args=[direction.pk])
    seen = client.get(edit).context["seen"]
    form = {**form, "text": "Suppliers, too.", "seen": seen, "reason": ""}
    assert client.post(edit, form, follow=True).status_code == 200
    assert only(stored(Direction)).text == "Suppliers, too."
    remove = reverse("admin:mail_direction_remove", args=[direction.pk])
    seen = client.get(remove).context["seen"]
    client.post(remove, {"seen": seen, "reason": ""})
    assert stored(Direction) == []
