"""Outbound messages over REST: listed, shown, canceled, marked as sent, sent again."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from mail.models import MailAccount, OutboundMessage, OutboundStatus
from mail.services.mailboxes.connect_account import disconnect_account
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.jobs.admin.pages import audit_entries
from tests.mail.mail_kit import Mailbox, drain
from tests.mail.send_kit import answer, at_once, current, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18", "M-22")]

ROOT = "/api/v1/mail/outbound/"


class Api:
    """A member of a firm who sends requests with an API key."""

    def __init__(self, firm: Firm, role: Role) -> None:
        from tests.jobs.api.conftest import key_for

        self.headers = {"Authorization": f"Bearer {key_for(firm, role)}"}

    def get(self, path: str = "", **query: Any) -> Any:
        return Client().get(ROOT + path, query, headers=self.headers)

    def post(self, row: OutboundMessage, operation: str, **body: object) -> Any:
        return Client().post(
            f"{ROOT}{row.pk}/{operation}/",
            body,
            content_type="application/json",
            headers=self.headers,
        )


@pytest.fixture
def waiting(mailbox: Mailbox) -> OutboundMessage:
    """Return an answer that waits to be sent."""
    arrived = mailbox.receive()
    mailbox.store_all()
    return answer(mailbox, arrived, "Gladly, at once.")


def set_status(row: OutboundMessage, status: OutboundStatus) -> None:
    with firm_scope(row.firm_id):
        OutboundMessage.objects.update(status=status)


def test_they_are_listed_and_shown(mailbox: Mailbox, waiting: OutboundMessage) -> None:
    api = Api(mailbox.firm, Role.VIEWER)
    (row,) = api.get(status="queued", account_id=str(mailbox.account.pk)).json()["results"]
    shown = api.get(f"{waiting.pk}/").json()
    assert row.items() <= shown.items()
    assert [one["address"] for one in row["to"]] == ["anna@customer.example"]
    assert (row["kind"], row["status"], shown["text"]) == ("reply", "queued", "Gladly, at once.")
    assert api.get(status="sent").json()["results"] == []


def test_one_that_waits_is_canceled_once(mailbox: Mailbox, waiting: OutboundMessage) -> None:
    api = Api(mailbox.firm, Role.OPERATOR)
    first = api.post(waiting, "cancel", reason="a wrong price")
    assert (first.status_code, first.json()["status"]) == (200, "canceled")
    assert api.post(waiting, "cancel").status_code == 409
    drain()
    assert sent(mailbox) == []
    (entry,) = audit_entries(waiting.pk)
    assert (entry.act, entry.reason, entry.door) == ("outbound.cancel", "a wrong price", "api")


def test_one_that_is_unknown_is_marked_as_sent(mailbox: Mailbox, waiting: OutboundMessage) -> None:
    api = Api(mailbox.firm, Role.OPERATOR)
    assert api.post(waiting, "mark-sent", reason="seen").status_code == 409
    set_status(waiting, OutboundStatus.UNKNOWN)
    assert api.post(waiting, "mark-sent").status_code == 400
    answered = api.post(waiting, "mark-sent", reason="I saw it")
    assert (answered.status_code, answered.json()["status"]) == (200, "sent")


def test_one_that_was_canceled_is_sent_again(mailbox: Mailbox, waiting: OutboundMessage) -> None:
    at_once(mailbox)
    api = Api(mailbox.firm, Role.OPERATOR)
    api.post(waiting, "cancel")
    assert api.post(waiting, "send-again").status_code == 400
    assert api.post(waiting, "send-again", reason="it was right").json()["status"] == "queued"
    drain()
    assert current(waiting).status == OutboundStatus.SENT
    assert len(sent(mailbox)) == 1


def test_nothing_is_sent_again_from_a_disconnected_mailbox(
    mailbox: Mailbox, waiting: OutboundMessage
) -> None:
    api = Api(mailbox.firm, Role.OPERATOR)
    api.post(waiting, "cancel")
    disconnect_account(mailbox.account, keep_days=30)
    refused = api.post(waiting, "send-again", reason="it was right")
    assert refused.status_code == 409
    assert "disconnected" in refused.json()["detail"]
    assert current(waiting).status == OutboundStatus.CANCELED


def test_a_viewer_operates_on_nothing(mailbox: Mailbox, waiting: OutboundMessage) -> None:
    api = Api(mailbox.firm, Role.VIEWER)
    for operation in ("cancel", "mark-sent", "send-again"):
        assert api.post(waiting, operation, reason="x").status_code == 403
    assert current(waiting).status == OutboundStatus.QUEUED


@pytest.mark.req("M-23")
def test_what_it_says_is_for_readers_and_so_is_sending_it_again(
    mailbox: Mailbox, waiting: OutboundMessage
) -> None:
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)
    api = Api(mailbox.firm, Role.ADMIN)
    shown = api.get(f"{waiting.pk}/")
    assert b"Gladly" not in shown.content
    assert b"anna@" not in shown.content
    assert (shown.json()["text"], shown.json()["to"], shown.json()["subject"]) == (None, None, None)
    set_status(waiting, OutboundStatus.UNKNOWN)
    assert api.post(waiting, "send-again", reason="x").status_code == 403


@pytest.mark.req("T-03")
def test_another_firm_finds_nothing(
    mailbox: Mailbox, waiting: OutboundMessage, other_firm: Firm
) -> None:
    api = Api(other_firm, Role.ADMIN)
    assert api.get().json()["results"] == []
    assert api.get(f"{waiting.pk}/").status_code == 404
    assert api.post(waiting, "cancel").status_code == 404
