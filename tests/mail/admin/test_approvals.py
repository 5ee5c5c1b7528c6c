"""Approvals and messages on their way out, in the admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mail.models import MailAccount, OutboundMessage
from tenants.models import Role
from tenants.scope import firm_scope
from tests.jobs.admin.pages import messages_of, operation_url, submit
from tests.mail.approval_kit import audited, outbound_of, person, reread, waiting
from tests.mail.mail_kit import Mailbox, drain
from tests.mail.send_kit import at_once, current, sent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def browser(actor: Any) -> Client:
    client = Client()
    client.force_login(actor.user)
    return client


@pytest.mark.req("M-14")
@pytest.mark.parametrize(("decision", "mails"), [("approve", 1), ("reject", 0)])
def test_a_question_is_shown_and_decided(box: Mailbox, decision: str, mails: int) -> None:
    approval, client = waiting(box), browser(person(box))
    page = client.get(reverse("admin:mail_approval_change", args=[approval.pk])).content.decode()
    assert "Gladly." in page
    assert "anna@customer.example" in page
    # The page keeps the lines of what is sent.
    assert 'class="queue-written"><span class="queue-muted">Text</span> Gladly.' in page
    assert submit(client, approval, decision, reason="I know her").status_code == 302
    again = client.post(operation_url(approval, decision), {"reason": "Again"})
    assert again.status_code == 409
    drain()
    assert len(sent(box)) == mails
    decided, refused = audited(approval)
    assert decided[0] in ("approval.approved", "approval.rejected")
    assert refused == (f"approval.{decision}_refused", decided[1])


@pytest.mark.req("M-14")
def test_the_page_that_asks_shows_what_is_sent_in_its_lines(box: Mailbox) -> None:
    approval = waiting(box)
    shown = browser(person(box)).get(operation_url(approval, "approve")).content.decode()
    text = shown.partition('<p class="queue-written">')[2].partition("</p>")[0]
    names = [line.partition(":")[0] for line in text.splitlines()]
    assert names[0] == "Mailroom does this once, exactly as shown."
    assert {"Action", "Mailbox", "To", "Subject"} <= {*names}


@pytest.mark.req("M-14")
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_on_a_page_that_is_out_of_date_is_in_the_audit_log(
    box: Mailbox, decision: str
) -> None:
    approval, client = waiting(box), browser(person(box))
    opened = {"seen": "pending what-the-page-showed", "reason": "I know her"}
    assert client.post(operation_url(approval, decision), opened).status_code == 409
    assert reread(approval).status == "pending"
    ((act, _),) = audited(approval)
    assert act == f"approval.{decision}_refused"


@pytest.mark.req("M-14")
@pytest.mark.parametrize("decision", ["approve", "reject"])
@pytest.mark.parametrize(("role", "shared"), [(Role.VIEWER, True), (Role.OPERATOR, False)])
def test_a_decision_of_somebody_who_may_not_decide_is_in_the_audit_log(
    box: Mailbox, role: Role, shared: bool, decision: str
) -> None:
    approval, actor = waiting(box), person(box, role)
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=shared)
    client, address = browser(actor), operation_url(approval, decision)
    assert client.get(address).status_code == 403
    assert audited(approval) == []
    assert client.post(address, {"reason": "I would like to"}).status_code == 403
    assert reread(approval).status == "pending"
    assert audited(approval) == [(f"approval.{decision}_refused", actor.name)]


@pytest.mark.req("M-14")
def test_a_question_that_changed_after_it_was_opened_is_not_decided(box: Mailbox) -> None:
    approval, client = waiting(box), browser(person(box))
    with firm_scope(box.firm):
        OutboundMessage.objects.update(subject="Another")
    assert "has changed since" in messages_of(submit(client, approval, "approve"))
    assert reread(approval).status == "canceled"


@pytest.mark.req("M-23")
def test_who_may_not_read_the_mailbox_sees_no_mail_and_no_buttons(box: Mailbox) -> None:
    approval, client = waiting(box), browser(person(box))
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False)
    for row, name in ((approval, "approval"), (outbound_of(approval), "outboundmessage")):
        address = reverse(f"admin:mail_{name}_change", args=[row.pk])
        page = client.get(address).content.decode()
        assert "Gladly." not in page
        assert "anna@customer.example" not in page
    assert client.get(operation_url(approval, "approve")).status_code == 403


@pytest.mark.req("M-18")
def test_what_nobody_can_tell_is_decided_by_a_person(box: Mailbox) -> None:
    approval, client = waiting(box), browser(person(box))
    outbound = outbound_of(approval)

    def is_unknown() -> None:
        with firm_scope(box.firm):
            OutboundMessage.objects.update(status="unknown", error="Nobody can tell.", releases=1)

    is_unknown()
    listed = client.get(reverse("admin:mail_outboundmessage_changelist") + "?status=unknown")
    assert "Re: Question" in listed.content.decode()
    assert submit(client, outbound, "mark-sent", reason="Seen").status_code == 302
    assert current(outbound).status == "sent"
    is_unknown()
    assert submit(client, outbound, "send-again", reason="No").status_code == 302
    drain()
    assert (current(outbound).status, len(sent(box))) == ("sent", 1)
