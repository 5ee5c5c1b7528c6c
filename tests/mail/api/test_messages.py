"""Messages and threads over REST: the firm sees metadata, only readers see the content."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from jobs.testing import drain
from mail.models import ContentGrant, MailAccount
from mail.services.queueing import request_sync
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.jobs.admin.pages import audit_entries
from tests.mail.mail_kit import Mailbox, letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-22")]

ROOT = "/api/v1/mail/"
CANARY = "Aubergine"


class Api:
    """A member of a firm who sends requests with an API key."""

    def __init__(self, firm: Firm, role: Role) -> None:
        from tests.jobs.api.conftest import key_for

        self.headers = {"Authorization": f"Bearer {key_for(firm, role)}"}

    def get(self, path: str, **query: Any) -> Any:
        return Client().get(ROOT + path, query, headers=self.headers)

    def post(self, path: str, **body: object) -> Any:
        return Client().post(
            ROOT + path, body, content_type="application/json", headers=self.headers
        )


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox with a classified message that has the canary in its subject and text."""
    mailbox.receive(
        letter(f"{CANARY} prices", f"Could you send me the price of one {CANARY}, please?")
    )
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    drain()
    return mailbox


def close(mailbox: Mailbox) -> None:
    """Make the mailbox private, with no owner."""
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)


def test_messages_are_listed_shown_and_filtered(box: Mailbox) -> None:
    (message,) = box.messages()
    api = Api(box.firm, Role.VIEWER)
    (row,) = api.get("messages/").json()["results"]
    shown = api.get(f"messages/{message.pk}/").json()
    assert row.items() <= shown.items()
    assert (row["sender_address"], row["subject"]) == ("anna@customer.example", f"{CANARY} prices")
    assert (row["category"], row["outgoing"]) == ("needs_response", False)
    assert CANARY in shown["text"]
    assert "text" not in row
    found: dict[str, list[Any]] = {}
    for name, value in {
        "thread_id": message.thread_id, "account_id": box.account.pk, "direction": "in",
        "sender": "ANNA@customer.example", "category": "needs_response",
        "received_before": (timezone.now() + timedelta(days=1)).isoformat(),
    }.items():  # fmt: skip
        found[name] = api.get("messages/", **{name: value}).json()["results"]
    assert {name: len(rows) for name, rows in found.items()} == dict.fromkeys(found, 1)
    for name, value in {
        "thread_id": uuid4(), "direction": "out", "category": "fyi", "sender": "x@y.example",
        "received_after": (timezone.now() + timedelta(days=1)).isoformat(),
    }.items():  # fmt: skip
        assert api.get("messages/", **{name: value}).json()["results"] == [], name
    assert api.get("messages/", direction="sideways").status_code == 400


def test_the_html_that_is_shown_runs_and_fetches_nothing(mailbox: Mailbox) -> None:
    from email.message import EmailMessage

    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "evil@x.example", "owner@acme.example", "Hello"
    mail.set_content(
        '<p>Hello<script>alert(1)</script><img src="https://x.example/seen.png"></p>',
        subtype="html",
    )
    mailbox.receive(mail.as_bytes())
    (message,) = mailbox.store_all()
    html = Api(mailbox.firm, Role.VIEWER).get(f"messages/{message.pk}/").json()["html"]
    assert "<p>Hello" in html
    assert "script" not in html
    assert "x.example" not in html


def test_a_thread_is_shown_with_its_messages(box: Mailbox) -> None:
    (message,) = box.messages()
    api = Api(box.firm, Role.VIEWER)
    (row,) = api.get("threads/", category="needs_response", status="drafted").json()["results"]
    shown = api.get(f"threads/{message.thread_id}/").json()
    assert row.items() <= shown.items()
    assert (row["subject"], row["message_count"]) == (f"{CANARY} prices", 1)
    assert [one["id"] for one in shown["messages"]] == [str(message.pk)]
    assert shown["messages"][0]["subject"] == f"{CANARY} prices"
    assert api.get("threads/", status="archived").json()["results"] == []


@pytest.mark.req("M-21")
def test_the_timeline_tells_what_happened(box: Mailbox) -> None:
    (message,) = box.messages()
    entries = Api(box.firm, Role.VIEWER).get(f"messages/{message.pk}/timeline/").json()["results"]
    assert [entry["at"] for entry in entries] == sorted(entry["at"] for entry in entries)
    kinds = {entry["kind"] for entry in entries}
    assert {"event", "decision", "action", "job"} <= kinds
    actions = [entry for entry in entries if entry["kind"] == "action"]
    # One action adds the category's label; two more replace it by the draft's label.
    assert [(one["status"], one["undoable"]) for one in actions] == [("completed", True)] * 3


@pytest.mark.req("M-23")
@pytest.mark.parametrize("role", list(Role))
def test_who_may_not_read_the_mailbox_sees_metadata(box: Mailbox, role: Role) -> None:
    close(box)
    (message,) = box.messages()
    api = Api(box.firm, role)
    for path in (
        "messages/", f"messages/{message.pk}/", f"messages/{message.pk}/timeline/", "threads/",
        f"threads/{message.thread_id}/",
    ):  # fmt: skip
        answer = api.get(path)
        assert (answer.status_code, CANARY.encode() in answer.content) == (200, False), path
    shown = api.get(f"messages/{message.pk}/").json()
    assert shown["sender_address"] == "anna@customer.example"
    for name in ("subject", "snippet", "labels", "text", "html", "hidden_text", "attachments"):
        assert shown[name] is None, name


@pytest.mark.req("M-23", "T-05")
def test_break_glass_needs_an_admin_and_a_reason_and_ends(box: Mailbox) -> None:
    close(box)
    (message,) = box.messages()
    path = f"accounts/{box.account.pk}/break-glass/"
    assert Api(box.firm, Role.OPERATOR).post(path, reason="curious").status_code == 403
    admin = Api(box.firm, Role.ADMIN)
    blank = admin.post(path)
    assert (blank.status_code, blank.json()["errors"][0]["field"]) == (400, "reason")
    assert admin.get(f"messages/{message.pk}/").json()["text"] is None

    assert admin.post(path, reason="a subpoena").status_code == 200
    assert CANARY in admin.get(f"messages/{message.pk}/").json()["text"]
    (entry,) = audit_entries(box.account.pk)
    assert (entry.act, entry.reason, entry.door) == ("mailbox.break_glass", "a subpoena", "api")
    with firm_scope(box.firm):
        ContentGrant.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert admin.get(f"messages/{message.pk}/").json()["text"] is None


@pytest.mark.req("T-03")
def test_another_firm_finds_nothing(box: Mailbox, other_firm: Firm) -> None:
    (message,) = box.messages()
    api = Api(other_firm, Role.ADMIN)
    assert api.get("messages/").json()["results"] == []
    assert api.get("threads/").json()["results"] == []
    for path in (
        f"messages/{message.pk}/", f"messages/{message.pk}/timeline/",
        f"threads/{message.thread_id}/",
    ):  # fmt: skip
        assert api.get(path).status_code == 404
    assert api.post(f"accounts/{box.account.pk}/break-glass/", reason="x").status_code == 404
