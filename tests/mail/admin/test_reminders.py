"""Reminders in the admin: made, changed, canceled, deleted by their person; ended by an admin."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mail.models import Reminder, ReminderStatus
from mail.services.reminders.reminders import create_reminder
from tenants.models import Firm, Role
from tests.factories.tenants import new_member
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import audit_entries, now, operation_url, submit
from tests.mail.mail_kit import only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-03")]

DUE = datetime.fromisoformat("2099-05-04T09:00:00Z")
NEW = "admin:mail_reminder_new"
LIST = "admin:mail_reminder_changelist"


def page(row: Reminder) -> str:
    return reverse("admin:mail_reminder_change", args=[row.pk])


def make(client: Client, **answers: Any) -> Any:
    given = {"title": "Call Anna", "due_at": "2099-05-04T09:00", "time_zone": "UTC", "seen": ""}
    return client.post(reverse(NEW), {**given, **answers})


def of_somebody(firm: Firm) -> Reminder:
    person = new_member(firm, Role.VIEWER, "anna")
    return create_reminder(firm.pk, person.pk, title="Secret", body="secret", due_at=DUE)


def test_a_reminder_is_made_changed_canceled_and_deleted(firm: Firm) -> None:
    client = browser_of(firm, Role.VIEWER)
    assert client.get(reverse(NEW)).status_code == 200
    assert make(client, body="About the offer").status_code == 302
    row = only(stored(Reminder))
    assert (row.title, row.due_at) == ("Call Anna", DUE)
    for address in (page(row), reverse(LIST)):
        assert "Call Anna" in client.get(address).content.decode()
    assert "&#x27;active&#x27;" not in client.get(page(row)).content.decode()

    # The form still has the old date; the new timetable computes its own.
    assert submit(client, row, "edit", cron="0 9 * * MON", title="Call").status_code == 302
    row = now(row)
    assert (row.title, row.body, row.cron) == ("Call", "About the offer", "0 9 * * MON")
    assert row.due_at < DUE
    assert "At 09:00 on Monday" in client.get(page(row)).content.decode()
    # A page that was opened before the change would overwrite it, so it is refused.
    stale = {"title": "b", "time_zone": "UTC", "seen": "before"}
    assert client.post(operation_url(row, "edit"), stale).status_code == 409

    assert submit(client, row, "cancel", reason="done").status_code == 302
    assert now(row).status == ReminderStatus.CANCELED
    assert client.post(operation_url(row, "edit"), stale).status_code == 409
    assert submit(client, row, "remove")["Location"] == reverse(LIST)
    assert stored(Reminder) == []
    assert [(entry.act, entry.door) for entry in audit_entries(row.pk)] == [
        ("reminder.create", "admin"),
        ("reminder.change", "admin"),
        ("reminder.cancel", "admin"),
        ("reminder.delete", "admin"),
    ]


@pytest.mark.parametrize(
    ("answers", "field", "message"),
    [
        ({"title": ""}, "title", "This field is required."),
        ({"title": "x" * 201}, "title", "at most 200 characters"),
        ({"title": "a\x1bb"}, "title", "Must be one line"),
        ({"body": "x" * 2001}, "body", "at most 2000 characters"),
        ({"due_at": "soon"}, "due_at", "Enter a valid date/time."),
        ({"due_at": "2020-01-01T00:00"}, "due_at", "Must be in the future."),
        ({"due_at": ""}, "due_at", "Is missing: give it, or a cron expression or an interval."),
        ({"cron": "daily"}, "cron", "Must have 5 fields"),
        ({"cron": "0 9 * * *", "interval_seconds": "60"}, "cron", "Give either a cron"),
        ({"interval_seconds": "0"}, "interval_seconds", "greater than or equal to 1"),
        ({"time_zone": ""}, "time_zone", "This field is required."),
        ({"time_zone": "Mars"}, "time_zone", "is no time zone"),
    ],
)
def test_bad_input_stands_beside_its_field(
    firm: Firm, answers: dict[str, Any], field: str, message: str
) -> None:
    refused = make(browser_of(firm, Role.VIEWER), **answers)
    assert refused.status_code == 400
    assert message in str(refused.context["form"].errors.get(field))
    assert stored(Reminder) == []


def test_a_colleague_sees_that_it_is_there_and_an_admin_may_end_it(firm: Firm) -> None:
    row = of_somebody(firm)
    for role in (Role.VIEWER, Role.DEVELOPER, Role.ADMIN):
        client = browser_of(firm, role)
        for address in (page(row), reverse(LIST)):
            shown = client.get(address).content.decode()
            assert "(private)" in shown
            assert "ecret" not in shown
        assert client.get(operation_url(row, "edit")).status_code == 403
        expected = 200 if role == Role.ADMIN else 403
        for name in ("cancel", "remove"):
            opened = client.get(operation_url(row, name))
            assert opened.status_code == expected
            assert b"ecret" not in opened.content
    assert submit(client, row, "remove").status_code == 302
    assert stored(Reminder) == []


def test_another_firms_reminder_is_not_there(firm: Firm, other_firm: Firm) -> None:
    row = of_somebody(other_firm)
    client = browser_of(firm, Role.ADMIN)
    assert client.get(page(row)).status_code == 404
    for name in ("edit", "cancel", "remove"):
        assert client.get(operation_url(row, name)).status_code == 404
        assert client.post(operation_url(row, name), {"seen": ""}).status_code == 404
    assert now(row).status == ReminderStatus.ACTIVE
