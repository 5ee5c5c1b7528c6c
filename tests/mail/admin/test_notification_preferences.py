"""Notification preferences in the admin: their person changes them, an admin may reset them."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mail.models import NotificationPreference
from tenants.models import Firm, Role
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import now, operation_url, submit
from tests.mail.mail_kit import only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-04")]

WEBHOOK = "https://discord.example/api/webhooks/1/s3cr3t"
NEW = "admin:mail_notificationpreference_new"
LIST = "admin:mail_notificationpreference_changelist"
NIGHT = {"time_zone": "Europe/Vienna", "quiet_from": "22:00", "quiet_until": "07:00", "seen": ""}


def page(row: NotificationPreference) -> str:
    return reverse("admin:mail_notificationpreference_change", args=[row.pk])


def make(client: Client, **answers: Any) -> Any:
    return client.post(reverse(NEW), {**NIGHT, "email": "on", **answers})


def test_preferences_are_made_changed_and_reset(firm: Firm) -> None:
    client = browser_of(firm, Role.VIEWER)
    assert b"You are notified by e-mail" in client.get(reverse(LIST)).content
    assert client.get(reverse(NEW)).status_code == 200
    assert make(client, discord_webhook=WEBHOOK).status_code == 302
    row = only(stored(NotificationPreference))
    assert (row.quiet_from, row.quiet_until, row.email) == (time(22), time(7), True)
    for address in (page(row), reverse(LIST)):
        shown = client.get(address).content.decode()
        assert "22:00 to 07:00" in shown
        assert "E-mail, Discord" in shown
    assert make(client).status_code == 409

    assert submit(client, row, "edit", digest_at="07:30").status_code == 302
    for address in (page(row), reverse(LIST)):
        assert "Daily at 07:30" in client.get(address).content.decode()
    # If nothing is entered for the webhook, the stored one stays.
    assert submit(client, row, "edit", quiet_from="", quiet_until="").status_code == 302
    row = now(row)
    assert (row.quiet_from, bool(row.discord_webhook), row.digest_at) == (None, True, time(7, 30))
    assert submit(client, row, "edit", digest_at="").status_code == 302
    assert (now(row).digest_at, now(row).due_at) == (None, None)
    both = submit(client, row, "edit", discord_webhook=WEBHOOK, no_discord="on")
    assert "no_discord" in both.context["form"].errors
    assert submit(client, row, "edit", no_discord="on", email="").status_code == 302
    row = now(row)
    assert (row.discord_webhook, row.email) == ("", False)
    assert "Not at all" in client.get(page(row)).content.decode()
    stale = {**NIGHT, "seen": "before"}
    assert client.post(operation_url(row, "edit"), stale).status_code == 409
    assert submit(client, row, "reset")["Location"] == reverse(LIST)
    assert stored(NotificationPreference) == []


@pytest.mark.parametrize(
    ("answers", "field", "message"),
    [
        ({"time_zone": "Vienna"}, "time_zone", "Must be the name of a zone"),
        ({"time_zone": ""}, "time_zone", "This field is required."),
        ({"quiet_from": ""}, "quiet_until", "Needs quiet_from too: give both times"),
        ({"quiet_until": "late"}, "quiet_until", "Enter a valid time."),
        ({"discord_webhook": "discord.example"}, "discord_webhook", "https"),
    ],
)
def test_bad_input_stands_beside_its_field(
    firm: Firm, answers: dict[str, Any], field: str, message: str
) -> None:
    refused = make(browser_of(firm, Role.VIEWER), **answers)
    assert refused.status_code == 400
    assert message in str(refused.context["form"].errors.get(field))
    assert stored(NotificationPreference) == []


def test_faults_of_two_fields_stand_beside_each(firm: Firm) -> None:
    refused = make(browser_of(firm, Role.VIEWER), time_zone="Vienna", quiet_from="")
    assert set(refused.context["form"].errors) == {"time_zone", "quiet_until"}


def test_they_are_their_persons_and_an_admins_to_reset(firm: Firm, other_firm: Firm) -> None:
    make(browser_of(firm, Role.VIEWER))
    row = only(stored(NotificationPreference))
    for unseen in (browser_of(firm, Role.DEVELOPER), browser_of(other_firm, Role.ADMIN)):
        assert "Vienna" not in unseen.get(reverse(LIST)).content.decode()
        for address in (page(row), operation_url(row, "edit"), operation_url(row, "reset")):
            assert unseen.get(address).status_code == 404
    admin = browser_of(firm, Role.ADMIN)
    assert "Vienna" in admin.get(page(row)).content.decode()
    assert admin.get(operation_url(row, "edit")).status_code == 403
    assert submit(admin, row, "reset").status_code == 302
    assert stored(NotificationPreference) == []
