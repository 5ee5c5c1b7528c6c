"""Mailboxes over REST: shown without secrets, synced, switched, paused, disconnected."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from mail.models import Connection, MailAccount, MailCredential, Mode
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import audit_entries
from tests.mail.mail_kit import Mailbox, drain, jobs, stored
from tests.mail.services.test_canaries import secrets_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-22", "M-24")]

ROOT = "/api/v1/mail/accounts/"


class Api:
    """A member of a firm who sends requests with an API key."""

    def __init__(self, firm: Firm, role: Role) -> None:
        from tests.jobs.api.conftest import key_for

        self.headers = {"Authorization": f"Bearer {key_for(firm, role)}"}

    def get(self, path: str = "") -> Any:
        return Client().get(ROOT + path, headers=self.headers)

    def post(self, account: MailAccount, operation: str, **body: object) -> Any:
        return Client().post(
            f"{ROOT}{account.pk}/{operation}/",
            body,
            content_type="application/json",
            headers=self.headers,
        )


def test_a_mailbox_is_shown_with_its_state(mailbox: Mailbox) -> None:
    api = Api(mailbox.firm, Role.VIEWER)
    (listed,) = api.get().json()["results"]
    shown = api.get(f"{mailbox.account.pk}/").json()
    assert listed == shown
    assert shown["address"] == mailbox.account.address
    assert (shown["firm"], shown["connection"], shown["mode"]) == ("acme", "connected", "active")
    assert shown["paused_by"] is None
    assert shown["history_cursor"] is None


def test_tokens_are_in_no_answer(connected: Mailbox) -> None:
    api = Api(connected.firm, Role.ADMIN)
    answers = api.get().content + api.get(f"{connected.account.pk}/").content
    answers += api.post(connected.account, "sync").content
    for secret in secrets_of(connected):
        assert secret.encode() not in answers


def test_a_sync_is_asked_for_once(mailbox: Mailbox) -> None:
    api = Api(mailbox.firm, Role.OPERATOR)
    mailbox.receive()
    first = api.post(mailbox.account, "sync", reason="mail is missing")
    assert first.status_code == 200
    again = api.post(mailbox.account, "sync")
    assert first.json() == {"job_id": str(jobs("sync")[0].pk), "created": True}
    assert again.json() == {"job_id": first.json()["job_id"], "created": False}
    full = api.post(mailbox.account, "sync", full=True)
    assert full.json()["created"]
    assert {job.payload["force_full"] for job in jobs("sync")} == {False, True}
    drain()
    assert mailbox.reload().last_sync_at is not None
    assert [entry.act for entry in audit_entries(mailbox.account.pk)] == [
        "mailbox.sync", "mailbox.sync", "mailbox.full_sync",
    ]  # fmt: skip


def test_a_mailbox_that_is_not_connected_is_not_synced(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(connection=Connection.NEEDS_REAUTH)
    answer = Api(mailbox.firm, Role.OPERATOR).post(mailbox.account, "sync")
    assert (answer.status_code, answer.json()["code"]) == (409, "wrong_state")
    assert jobs() == []


def test_it_is_switched_and_paused_and_each_only_once(mailbox: Mailbox) -> None:
    api = Api(mailbox.firm, Role.ADMIN)
    for operation, field, value in [
        ("pause", "paused_by", "switch"),
        ("resume", "paused_by", None),
        ("suggest-only", "mode", "suggest"),
        ("activate", "mode", "active"),
    ]:
        answer = api.post(mailbox.account, operation, reason="because")
        assert answer.status_code == 200, answer.content
        assert answer.json()[field] == value
        again = api.post(mailbox.account, operation)
        assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    assert len(audit_entries(mailbox.account.pk)) == 4


@pytest.mark.parametrize("operation", ["sync", "pause", "suggest-only", "activate", "disconnect"])
def test_a_viewer_changes_nothing(mailbox: Mailbox, operation: str) -> None:
    answer = Api(mailbox.firm, Role.VIEWER).post(mailbox.account, operation)
    assert answer.status_code == 403


def test_making_active_and_disconnecting_are_the_owners_or_an_admins(mailbox: Mailbox) -> None:
    from tenants.api import keys
    from tenants.audit import SERVICE

    owner = UserFactory(username="grace", member_of=mailbox.firm, member_of__role=Role.OPERATOR)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(mode=Mode.SUGGEST, owner=owner, shared=False)
    assert Api(mailbox.firm, Role.OPERATOR).post(mailbox.account, "activate").status_code == 403
    api = Api(mailbox.firm, Role.VIEWER)
    key = keys.issue(owner, mailbox.firm, Role.OPERATOR, lifetime=None, by=SERVICE)[0]
    api.headers = {"Authorization": f"Bearer {key}"}
    assert api.post(mailbox.account, "activate").status_code == 200
    answer = api.post(mailbox.account, "disconnect", keep_days=0, reason="leaves")
    assert answer.status_code == 200
    assert answer.json()["connection"] == "disconnected"


@pytest.mark.parametrize(
    ("role", "granted", "status"),
    [
        (Role.ADMIN, Role.VIEWER, 403),
        (Role.DEVELOPER, Role.OPERATOR, 403),
        (Role.OPERATOR, Role.OPERATOR, 200),
        (Role.VIEWER, Role.VIEWER, 200),
    ],
)
def test_a_key_with_less_than_its_users_role_does_not_act_as_the_owner(
    mailbox: Mailbox, role: Role, granted: Role, status: int
) -> None:
    from tenants.api import keys
    from tenants.audit import SERVICE

    owner = UserFactory(username="grace", member_of=mailbox.firm, member_of__role=role)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(mode=Mode.SUGGEST, owner=owner, shared=False)
    key = keys.issue(owner, mailbox.firm, granted, lifetime=None, by=SERVICE)[0]
    api = Api(mailbox.firm, Role.VIEWER)
    api.headers = {"Authorization": f"Bearer {key}"}
    assert api.post(mailbox.account, "activate").status_code == status
    rule = {"name": "All", "scope": "account", "account_id": str(mailbox.account.pk)}
    made = Client().post(
        "/api/v1/mail/rules/",
        {
            **rule,
            "category": "fyi",
            "conditions": {"type": "subject_contains", "value": "a"},
        },
        content_type="application/json",
        headers=api.headers,
    )
    assert made.status_code == (201 if status == 200 else 403), made.content
    assert api.post(mailbox.account, "disconnect", keep_days=0, reason="x").status_code == status


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "keep_days"),
        ({"keep_days": -1, "reason": "x"}, "keep_days"),
        ({"keep_days": "7", "reason": "x"}, "keep_days"),
        ({"keep_days": 7}, "reason"),
        ({"keep_days": 7, "reason": "x", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_body_is_named(mailbox: Mailbox, body: dict[str, Any], field: str) -> None:
    answer = Api(mailbox.firm, Role.ADMIN).post(mailbox.account, "disconnect", **body)
    assert answer.status_code == 400
    assert field in [error["field"] for error in answer.json()["errors"]]
    assert mailbox.reload().connection == Connection.CONNECTED


def test_a_disconnected_mailbox_loses_its_tokens(connected: Mailbox) -> None:
    api = Api(connected.firm, Role.ADMIN)
    api.post(connected.account, "disconnect", keep_days=30, reason="leaves")
    drain()
    assert stored(MailCredential) == []
    assert api.get(f"{connected.account.pk}/").json()["delete_mail_at"] is not None


@pytest.mark.req("T-03")
def test_another_firm_finds_nothing(mailbox: Mailbox, other_firm: Firm) -> None:
    api = Api(other_firm, Role.ADMIN)
    assert api.get().json()["results"] == []
    assert api.get(f"{mailbox.account.pk}/").status_code == 404
    assert api.post(mailbox.account, "sync").status_code == 404


@pytest.mark.req("U-06")
def test_attachments_are_switched_by_the_owner_or_an_admin(mailbox: Mailbox) -> None:
    admin, other = Api(mailbox.firm, Role.ADMIN), Api(mailbox.firm, Role.OPERATOR)
    assert admin.get(f"{mailbox.account.pk}/").json()["read_attachments"] is True
    assert other.post(mailbox.account, "attachments", read=False).status_code == 403
    shown = admin.post(mailbox.account, "attachments", read=False, reason="confidential").json()
    assert shown["read_attachments"] is False
    assert mailbox.reload().read_attachments is False
    for bad in ({}, {"read": "no"}, {"read": None}, {"read": True, "write": True}):
        assert admin.post(mailbox.account, "attachments", **bad).status_code == 400, bad
    assert [(one.act, one.reason) for one in audit_entries(mailbox.account.pk)] == [
        ("mailbox.read_attachments", "confidential")
    ]
