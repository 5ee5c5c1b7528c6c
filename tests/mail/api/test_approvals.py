"""Approvals over REST: listed without mail for who may not read it, decided once."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from mail.models import MailAccount
from tenants.models import Role
from tenants.scope import firm_scope
from tests.mail.approval_kit import audited, reread, waiting
from tests.mail.mail_kit import Mailbox, drain
from tests.mail.send_kit import at_once, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-14", "M-22")]

ROOT = "/api/v1/mail/approvals/"


class Api:
    """Somebody of a firm, by API key."""

    def __init__(self, box: Mailbox, role: Role) -> None:
        from tests.jobs.api.conftest import key_for

        self.headers = {"Authorization": f"Bearer {key_for(box.firm, role)}"}

    def get(self, path: str = "") -> Any:
        return Client().get(ROOT + path, headers=self.headers)

    def post(self, path: str, **body: object) -> Any:
        return Client().post(
            ROOT + path, body, content_type="application/json", headers=self.headers
        )


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def test_what_waits_is_listed_with_exactly_what_is_asked(box: Mailbox) -> None:
    approval = waiting(box)
    api = Api(box, Role.VIEWER)
    (listed,) = api.get("?status=pending").json()["results"]
    assert listed == api.get(f"{approval.pk}/").json()
    assert (listed["asked"], listed["status"], listed["reasons"]) == (
        "Reply",
        "pending",
        ["dangerous"],
    )
    assert listed["facts"]["To"] == "anna@customer.example"
    assert api.get("?status=approved").json()["results"] == []
    assert api.get("?status=nonsense").status_code == 400


@pytest.mark.parametrize(("decision", "mails"), [("approve", 1), ("reject", 0)])
def test_it_is_decided_once(box: Mailbox, decision: str, mails: int) -> None:
    approval, api = waiting(box), Api(box, Role.OPERATOR)
    first = api.post(f"{approval.pk}/{decision}/", reason="I looked at it")
    assert (first.status_code, first.json()["decided_via"]) == (200, "api")
    again = api.post(f"{approval.pk}/approve/")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    drain()
    assert len(sent(box)) == mails
    assert [act for act, _ in audited(approval)] == [
        f"approval.{first.json()['status']}",
        "approval.approve_refused",
    ]


def test_a_viewer_decides_nothing(box: Mailbox) -> None:
    approval = waiting(box)
    assert Api(box, Role.VIEWER).post(f"{approval.pk}/approve/").status_code == 403
    assert reread(approval).status == "pending"


@pytest.mark.req("M-23")
def test_who_may_not_read_the_mailbox_sees_no_mail_and_decides_nothing(box: Mailbox) -> None:
    approval = waiting(box)
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False)
    api = Api(box, Role.OPERATOR)
    shown = api.get(f"{approval.pk}/").json()
    assert shown["facts"] is None
    assert api.post(f"{approval.pk}/approve/").status_code == 403
    assert reread(approval).status == "pending"
