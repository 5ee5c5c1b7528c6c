"""Notification endpoints and deliveries in the admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs.models import NotificationEndpoint
from jobs.operations.endpoints import create_endpoint, signing_key
from jobs.testing import drain
from tenants.models import Role
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.jobs.admin.pages import audit_entries, messages_of, now, operation_url, submit
from tests.queue_kit import rows
from tests.support.receiver import receiver

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-03", "U-04")]

LIST = reverse("admin:jobs_notificationendpoint_changelist")
NEW = reverse("admin:jobs_notificationendpoint_new")
DELIVERIES = reverse("admin:jobs_delivery_changelist")
EVENTS = ["alert.new_failure", "dead_letter.escalated"]
HOOK = {
    "name": "On call",
    "channel": "webhook",
    "target": "https://hooks.example/very/private",
    "events": EVENTS,
}


def made() -> NotificationEndpoint:
    """Return the endpoint that the test created."""
    (row,) = [row for row in rows(NotificationEndpoint) if row.name == "On call"]
    return row


@pytest.mark.req("T-05")
def test_an_admin_creates_changes_and_removes_an_endpoint(
    acme: FirmRows, firm_admin: Client
) -> None:
    assert NEW in firm_admin.get(LIST).content.decode()
    done = firm_admin.post(NEW, HOOK)
    assert messages_of(done) == "Created: On call."
    row = made()
    assert (row.firm, row.events, row.enabled) == (acme.firm, EVENTS, True)
    page = firm_admin.get(reverse("admin:jobs_notificationendpoint_change", args=[row.pk]))
    for shown in (page.content.decode(), firm_admin.get(LIST).content.decode()):
        assert "https://hooks.example" in shown
        assert "very/private" not in shown
    submit(firm_admin, row, "edit", enabled="", events=["alert.unreviewed"], name="Pager")
    changed: Any = now(row)
    assert (changed.enabled, changed.events, changed.name) == (
        False, ["alert.unreviewed"], "Pager",
    )  # fmt: skip
    assert firm_admin.get(operation_url(row, "test")).status_code == 409
    submit(firm_admin, row, "remove", reason="gone")
    assert now(row) is None
    entries = audit_entries(row.pk)
    assert [entry.act for entry in entries] == [
        "endpoint.create", "endpoint.change", "endpoint.remove",
    ]  # fmt: skip
    assert "private" not in str([(entry.before, entry.after) for entry in entries])


def test_an_operator_sends_a_test_without_seeing_the_whole_url(acme: FirmRows) -> None:
    row = create_endpoint("On call", "discord", HOOK["target"], firm=acme.firm)
    operator = browser_of(acme.firm, Role.OPERATOR)
    page = operator.get(operation_url(row, "test"))
    assert page.status_code == 200
    assert "very/private" not in page.content.decode()
    assert messages_of(submit(operator, row, "test")).startswith("A test goes to https://hooks")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target": "http://user:word@a.example/"}, "target"),
        ({"channel": "email"}, "target"),
        ({"events": ["lunch"]}, "events"),
        ({"name": ""}, "name"),
        ({"name": "pager of acme"}, "name"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    acme: FirmRows, firm_admin: Client, change: dict[str, Any], field: str
) -> None:
    answer = firm_admin.post(NEW, {**HOOK, **change})
    assert answer.status_code == 400
    assert set(answer.context["form"].errors) == {field}


@pytest.mark.req("T-05")
def test_the_signing_key_is_shown_on_asking_and_that_is_audited(
    acme: FirmRows, firm_admin: Client
) -> None:
    row = create_endpoint("On call", "webhook", "https://hooks.example/", firm=acme.firm)
    first = signing_key(row)
    for url in (LIST, operation_url(row, "change"), operation_url(row, "key")):
        assert "whsec_" not in firm_admin.get(url).content.decode()
    shown = submit(firm_admin, row, "key", reason="the receiver was moved")
    assert first in shown.content.decode()
    assert "no-store" in shown["Cache-Control"]
    rotated = submit(firm_admin, row, "rotate").content.decode()
    assert first not in rotated
    assert signing_key(now(row)) in rotated
    acts = [entry.act for entry in audit_entries(row.pk)]
    assert acts == ["endpoint.create", "endpoint.show_key", "endpoint.rotate_key"]
    assert first not in str([vars(entry) for entry in audit_entries(row.pk)])


def test_a_mail_has_no_signing_key(acme: FirmRows, firm_admin: Client) -> None:
    assert firm_admin.get(operation_url(acme.endpoint, "key")).status_code == 409


@pytest.mark.req("T-01", "T-03")
def test_who_may_do_what(acme: FirmRows, globex: FirmRows, staff: Client) -> None:
    platform = create_endpoint("every firm's", "email", "ops@example.org", firm=None)
    for role, may_test, may_edit in (
        (Role.VIEWER, 403, 403),
        (Role.OPERATOR, 200, 403),
        (Role.ADMIN, 200, 200),
    ):
        client = browser_of(acme.firm, role)
        assert client.get(operation_url(acme.endpoint, "test")).status_code == may_test
        assert client.get(operation_url(acme.endpoint, "edit")).status_code == may_edit
        assert client.get(operation_url(globex.endpoint, "test")).status_code == 404
        assert client.get(operation_url(platform, "change")).status_code == 404
        listed = client.get(LIST).content.decode()
        assert "pager of acme" in listed
        assert "pager of globex" not in listed
        assert "every firm&#x27;s" not in listed
    assert staff.get(operation_url(platform, "edit")).status_code == 200
    assert "every firm&#x27;s" in staff.get(LIST).content.decode()


def test_a_test_is_sent_and_its_delivery_is_shown(
    acme: FirmRows, globex: FirmRows, firm_admin: Client, settings: Any
) -> None:
    with receiver() as hook:
        settings.WEBHOOK_PRIVATE_HOSTS = ["127.0.0.1"]
        row = create_endpoint("On call", "webhook", hook.url, firm=acme.firm)
        submit(firm_admin, row, "test")
        drain()
    assert [got.json["type"] for got in hook.received] == ["test"]
    listed = firm_admin.get(DELIVERIES, {"status": "delivered"}).content.decode()
    for shown in ("test", "On call", "delivered (204)", f"http://127.0.0.1:{hook.port}"):
        assert shown in listed
    assert "globex" not in firm_admin.get(DELIVERIES).content.decode()
    found = firm_admin.get(DELIVERIES, {"q": str(acme.waiting.pk)}).content.decode()
    assert ("event of acme" in found, "On call" in found) == (True, False)
    (sent,) = [one for one in rows(type(acme.delivery)) if one.event == "test"]
    page = firm_admin.get(operation_url(sent, "change")).content.decode()
    assert str(sent.job_id) in page
    submit(firm_admin, row, "remove")
    assert "removed" in firm_admin.get(DELIVERIES).content.decode()
    assert "removed" in firm_admin.get(operation_url(sent, "change")).content.decode()
