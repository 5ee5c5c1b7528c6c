"""Approvals over REST: listed without mail for callers who may not read it, decided once."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from mail.models import ActionType, Approval, Connection, MailAccount
from mail.services.actions.actions import request_action
from mail.services.actions.perform import MESSAGE_GONE
from mail.services.mailboxes.connect_account import disconnect_account
from tenants.api import keys
from tenants.audit import SERVICE
from tenants.models import Role
from tenants.scope import firm_scope
from tests.mail.action_kit import in_gmail
from tests.mail.approval_kit import audited, outbound_of, person, reread, waiting
from tests.mail.draft_kit import synced
from tests.mail.mail_kit import Mailbox, drain, only, stored
from tests.mail.send_kit import at_once, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-14", "M-22")]

ROOT = "/api/v1/mail/approvals/"


class Api:
    """A member of a firm who sends requests with an API key."""

    def __init__(self, box: Mailbox, role: Role, user: Any = None) -> None:
        from tests.factories.tenants import new_member

        self.user = user or new_member(box.firm, role, "")
        key = keys.issue(self.user, box.firm, role, lifetime=None, by=SERVICE)[0]
        self.headers = {"Authorization": f"Bearer {key}"}

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
    outbound = outbound_of(approval)
    assert "Gladly." in listed["content"]["text"]
    assert listed["content"] == {
        "text": outbound.text,
        "html": outbound.html,
        "files": outbound.filenames,
    }
    assert api.get("?status=approved").json()["results"] == []
    assert api.get("?status=nonsense").status_code == 400


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ({"add": "TRASH", "remove": "INBOX"}, "It is in the trash"),
        ({"add": "SPAM", "remove": "INBOX"}, "It is among spam"),
        ({"remove": "INBOX"}, "It is not in the inbox"),
        ({"remove": "UNREAD"}, None),
    ],
)
def test_the_question_says_where_the_mail_is_now(
    box: Mailbox, moved: dict[str, str], said: str | None
) -> None:
    approval, api = waiting(box), Api(box, Role.VIEWER)
    synced(box)
    assert "Mail" not in api.get(f"{approval.pk}/").json()["facts"]
    (message,) = box.messages()
    in_gmail(box, message.gmail_message_id, **moved)
    synced(box)
    assert api.get(f"{approval.pk}/").json()["facts"].get("Mail") == said


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


def test_nothing_is_approved_for_a_disconnected_mailbox_and_the_approval_waits(
    box: Mailbox,
) -> None:
    approval, api = waiting(box), Api(box, Role.OPERATOR)
    disconnect_account(box.account, keep_days=30)
    refused = api.post(f"{approval.pk}/approve/")
    assert (refused.status_code, refused.json()["detail"]) == (
        409, "The mailbox is disconnected: connect it again first.",
    )  # fmt: skip
    assert (reread(approval).status, outbound_of(approval).status) == (
        "pending", "approved_pending",
    )  # fmt: skip
    with firm_scope(box.firm):
        MailAccount.objects.update(connection=Connection.CONNECTED, delete_mail_at=None)
    assert api.post(f"{approval.pk}/approve/").status_code == 200
    drain()
    assert len(sent(box)) == 1


def test_an_approval_can_be_rejected_for_a_disconnected_mailbox(box: Mailbox) -> None:
    approval = waiting(box)
    disconnect_account(box.account, keep_days=30)
    answer = Api(box, Role.OPERATOR).post(f"{approval.pk}/reject/")
    assert (answer.status_code, answer.json()["status"]) == (200, "rejected")


def test_it_says_what_became_of_what_was_approved(box: Mailbox) -> None:
    approval, api = waiting(box), Api(box, Role.OPERATOR)
    assert api.get(f"{approval.pk}/").json()["outcome"] is None
    assert api.post(f"{approval.pk}/approve/").json()["outcome"] == "Queued"
    drain()
    assert api.get(f"{approval.pk}/").json()["outcome"] == "Sent"


def test_it_says_that_the_message_was_gone(box: Mailbox) -> None:
    arrived = box.receive()
    box.store_all()
    drain()
    with firm_scope(box.firm):
        request_action(box.message(arrived), ActionType.DELETE)
    approval, api = only(stored(Approval)), Api(box, Role.OPERATOR)
    box.gmail.delete_message(arrived)
    assert api.post(f"{approval.pk}/approve/").status_code == 200
    drain()
    shown = api.get(f"{approval.pk}/").json()
    assert (shown["status"], shown["outcome"]) == ("approved", f"Canceled: {MESSAGE_GONE}")


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_viewer_decides_nothing_and_the_audit_log_says_so(box: Mailbox, decision: str) -> None:
    approval, api = waiting(box), Api(box, Role.VIEWER)
    refused = api.post(f"{approval.pk}/{decision}/", reason="I would like to")
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    assert refused.json()["detail"] == "This needs the role operator in the firm."
    assert reread(approval).status == "pending"
    assert audited(approval) == [(f"approval.{decision}_refused", api.user.username)]


def test_a_refused_decision_is_repeated_with_its_key_and_kept_once(box: Mailbox) -> None:
    approval, api = waiting(box), Api(box, Role.VIEWER)
    api.headers["Idempotency-Key"] = "once"
    answers = [api.post(f"{approval.pk}/approve/") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].json() == answers[1].json()
    assert len(audited(approval)) == 1


@pytest.mark.req("M-23")
def test_the_owner_decides_about_their_mailbox_whatever_their_role(box: Mailbox) -> None:
    approval = waiting(box)
    api = Api(box, Role.VIEWER)
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False, owner=api.user)
    answer = api.post(f"{approval.pk}/approve/")
    assert (answer.status_code, answer.json()["status"]) == (200, "approved")
    drain()
    assert len(sent(box)) == 1


def test_a_key_that_may_only_look_decides_nothing_for_an_owner_who_may_more(box: Mailbox) -> None:
    approval, operator = waiting(box), person(box)
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False, owner=operator.user)
    api = Api(box, Role.VIEWER, operator.user)
    assert api.post(f"{approval.pk}/approve/").status_code == 403
    assert Api(box, Role.OPERATOR, operator.user).post(f"{approval.pk}/approve/").status_code == 200


@pytest.mark.req("M-23")
def test_who_may_not_read_the_mailbox_sees_no_mail_and_decides_nothing(box: Mailbox) -> None:
    approval = waiting(box)
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False)
    api = Api(box, Role.OPERATOR)
    shown = api.get(f"{approval.pk}/").json()
    assert (shown["facts"], shown["content"]) == (None, None)
    assert api.post(f"{approval.pk}/approve/").status_code == 403
    assert reread(approval).status == "pending"
    assert audited(approval) == [("approval.approve_refused", api.user.username)]
