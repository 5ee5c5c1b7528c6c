"""The link in the e-mail: opening it changes nothing, forged ones are refused and audited."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core import mail as django_mail
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from mail.models import ActionType, Approval, MailAccount, OutboundMessage
from mail.services.actions.actions import request_action
from mail.services.approvals.approvals import ask_approval
from tenants.models import Role
from tenants.scope import firm_scope
from tests.mail.action_kit import received
from tests.mail.approval_kit import audited, person, reread, waiting
from tests.mail.mail_kit import Mailbox, drain
from tests.mail.send_kit import at_once, forward, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-14")]


def link() -> str:
    """Return the link in the one e-mail."""
    (asked,) = django_mail.outbox
    found = re.search(r"/approvals/\S+", asked.body)
    assert found
    return found[0]


def press(address: str, decision: str = "approve") -> Any:
    """Press a button of the page, as a browser does that has just opened it."""
    client = Client(enforce_csrf_checks=True)
    page = client.get(address)
    token = page.cookies["csrftoken"].value if "csrftoken" in page.cookies else ""
    return client.post(address, {"decision": decision, "csrfmiddlewaretoken": token})


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def test_opening_the_link_shows_and_changes_nothing(box: Mailbox) -> None:
    person(box)
    approval = waiting(box)
    drain()
    for method in ("get", "head", "get"):
        page = getattr(Client(), method)(link())
        assert page.status_code == 200
    assert "Re: Question" in page.content.decode()
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert "no-store" in page.headers["Cache-Control"]
    drain()
    assert (reread(approval).status, sent(box), audited(approval)) == ("pending", [], [])


@pytest.mark.parametrize(("decision", "mails"), [("approve", 1), ("reject", 0)])
def test_pressing_decides_once(box: Mailbox, decision: str, mails: int) -> None:
    person(box)
    approval = waiting(box)
    drain()
    assert press(link(), decision).status_code == 200
    again = press(link(), "approve")
    assert again.status_code == 403 or again.status_code == 409
    drain()
    assert len(sent(box)) == mails
    assert reread(approval).decided_via == "email"
    assert audited(approval)[0] == (f"approval.{reread(approval).status}", "ada@acme.example")


@pytest.mark.parametrize("end", ["decided", "expired"])
def test_the_link_to_what_is_over_shows_no_mail(box: Mailbox, end: str) -> None:
    person(box)
    approval = waiting(box)
    drain()
    if end == "decided":
        press(link())
    else:
        with firm_scope(box.firm):
            Approval.objects.filter(pk=approval.pk).update(expires_at=timezone.now())
    page = Client().get(link())
    assert page.status_code == 200
    assert "Re: Question" not in page.content.decode()
    assert "Gladly." not in page.content.decode()


def test_the_page_shows_every_recipient_and_the_form_in_html(box: Mailbox) -> None:
    person(box)
    arrived = received(box)
    others = [f"number-{number}@partner.example" for number in range(40)]
    with firm_scope(box.firm):
        outbound = forward(box, arrived, [*others, "eve@else.example"], needs_approval=True)
        outbound.html = "<p>Something <b>else</b></p>"
        outbound.save(update_fields=["html"])
        ask_approval(outbound=outbound)
    drain()
    (asked,) = django_mail.outbox
    assert "41 recipients: number-0@partner.example" in asked.body
    page = Client().get(link()).content.decode()
    assert "eve@else.example" in page
    assert "&lt;p&gt;Something &lt;b&gt;else" in page


def test_what_could_never_be_undone_is_said_before_the_yes(box: Mailbox) -> None:
    person(box)
    arrived = received(box)
    with firm_scope(box.firm):
        request_action(box.message(arrived), ActionType.DELETE, {"permanently": True})
    drain()
    assert "Gmail keeps nothing of a message" in django_mail.outbox[0].body
    assert "Gmail keeps nothing of a message" in Client().get(link()).content.decode()


def test_a_form_from_elsewhere_decides_nothing(box: Mailbox) -> None:
    person(box)
    approval = waiting(box)
    drain()
    answer = Client(enforce_csrf_checks=True).post(link(), {"decision": "approve"})
    assert answer.status_code == 403
    assert reread(approval).status == "pending"


@pytest.mark.parametrize("part", ["signature", "user", "approval"])
def test_a_forged_link_decides_nothing_and_is_audited(box: Mailbox, part: str) -> None:
    ada = person(box)
    eve = person(box, Role.VIEWER, "eve@acme.example")
    approval = waiting(box)
    drain()
    address = link()
    forged = {
        "signature": address[:-3] + "xx/",
        "user": address.replace(f".{ada.user_id}:", f".{eve.user_id}:"),
        "approval": address.replace(approval.pk.hex, "0" * 32),
    }[part]
    assert forged != address
    assert Client().get(forged).status_code == 404
    assert Client().post(forged, {"decision": "approve"}).status_code == 404
    drain()
    assert (reread(approval).status, sent(box)) == ("pending", [])
    expected = [] if part == "approval" else [("approval.link_refused", "email:forged")] * 2
    assert audited(approval) == expected


def test_the_link_of_another_content_is_none(box: Mailbox) -> None:
    person(box)
    approval = waiting(box)
    drain()
    with firm_scope(box.firm):
        OutboundMessage.objects.update(text="Something else")
    assert press(link()).status_code == 409
    assert reread(approval).status == "canceled"


@pytest.mark.req("M-23")
def test_who_may_no_longer_read_the_mailbox_sees_and_decides_nothing(box: Mailbox) -> None:
    person(box)
    approval = waiting(box)
    drain()
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False)
    page = Client().get(link())
    assert "Re: Question" not in page.content.decode()
    assert Client().post(link(), {"decision": "approve"}).status_code == 409
    assert reread(approval).status == "pending"


@pytest.mark.parametrize("address", ["/approvals/x/", "/approvals/1.2.3:4/", "/approvals/%00/"])
def test_what_names_nothing_is_not_found(db: None, address: str) -> None:
    assert Client().get(address).status_code == 404


def test_the_page_says_until_when_in_utc(box: Mailbox, settings: Settings) -> None:
    settings.TIME_ZONE = "Pacific/Auckland"
    person(box)
    approval = waiting(box)
    drain()
    page = Client().get(link()).content.decode()
    assert f"Open until {approval.expires_at:%Y-%m-%d %H:%M} UTC." in page
