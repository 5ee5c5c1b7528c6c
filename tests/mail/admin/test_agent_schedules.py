"""Agents' schedules in the admin: made, changed and deleted by the mailbox's owner or an admin."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from mail.models import AgentSchedule, MailAccount
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import now, operation_url, submit
from tests.mail.agent_kit import make_profile
from tests.mail.mail_kit import Mailbox, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-02")]

DUE = datetime.fromisoformat("2099-05-04T09:00:00Z")
NEW = "admin:mail_agentschedule_new"
LIST = "admin:mail_agentschedule_changelist"


def page(row: AgentSchedule) -> str:
    return reverse("admin:mail_agentschedule_change", args=[row.pk])


def make(client: Client, box: Mailbox, profile: object, **answers: Any) -> Any:
    given = {
        "name": "Morning",
        "account_id": str(box.account.pk),
        "profile_id": str(profile),
        "prompt": "What waits for me?",
        "due_at": "2099-05-04T09:00",
        "time_zone": "UTC",
        "enabled": "on",
        "seen": "",
    }
    return client.post(reverse(NEW), {**given, **answers})


def test_a_schedule_is_made_changed_and_deleted(mailbox: Mailbox) -> None:
    client, profile = browser_of(mailbox.firm, Role.ADMIN), make_profile(mailbox)
    assert client.get(reverse(NEW)).status_code == 200
    assert make(client, mailbox, profile.pk, personal="on").status_code == 302
    row = only(stored(AgentSchedule))
    assert (row.due_at, row.profile_id, row.enabled) == (DUE, profile.pk, True)
    assert row.user_id == int(client.session["_auth_user_id"])
    for address in (page(row), reverse(LIST)):
        assert "Morning" in client.get(address).content.decode()

    # If only the time zone of a schedule with a single date changes, the date stays.
    assert submit(client, row, "edit", time_zone="Europe/Vienna").status_code == 302
    assert (now(row).due_at, now(row).time_zone) == (DUE, "Europe/Vienna")
    assert submit(client, row, "edit", cron="0 9 * * MON", enabled="").status_code == 302
    row = now(row)
    assert (row.cron, row.enabled) == ("0 9 * * MON", False)
    assert row.due_at < DUE
    assert "At 09:00 on Monday" in client.get(page(row)).content.decode()
    assert client.post(operation_url(row, "edit"), {"seen": "before"}).status_code == 400
    assert submit(client, row, "remove")["Location"] == reverse(LIST)
    assert stored(AgentSchedule) == []


@pytest.mark.parametrize(
    ("answers", "field", "message"),
    [
        ({"name": ""}, "name", "This field is required."),
        ({"name": "Other"}, "name", "Is the name of another schedule."),
        ({"prompt": "x" * 4001}, "prompt", "at most 4000 characters"),
        ({"account_id": ""}, "account_id", "This field is required."),
        ({"profile_id": ""}, "profile_id", "This field is required."),
        ({"due_at": ""}, "due_at", "Is missing: give it, or a cron expression or an interval."),
        ({"cron": "daily"}, "cron", "Must have 5 fields"),
        ({"time_zone": "Mars"}, "time_zone", "is no time zone"),
    ],
)
def test_bad_input_stands_beside_its_field(
    mailbox: Mailbox, answers: dict[str, Any], field: str, message: str
) -> None:
    client, profile = browser_of(mailbox.firm, Role.ADMIN), make_profile(mailbox)
    make(client, mailbox, profile.pk, name="Other")
    refused = make(client, mailbox, profile.pk, **answers)
    assert refused.status_code == 400
    assert message in str(refused.context["form"].errors.get(field))
    assert len(stored(AgentSchedule)) == 1


def test_one_switched_on_too_late_says_so_beside_its_date(mailbox: Mailbox) -> None:
    client, profile = browser_of(mailbox.firm, Role.ADMIN), make_profile(mailbox)
    make(client, mailbox, profile.pk, enabled="")
    with firm_scope(mailbox.firm):
        AgentSchedule.objects.update(due_at=datetime.fromisoformat("2020-05-04T09:00:00Z"))
    row = only(stored(AgentSchedule))
    refused = submit(client, row, "edit", enabled="on")
    assert refused.status_code == 400
    assert "Is past, and it is the only one" in str(refused.context["form"].errors.get("due_at"))
    assert now(row).enabled is False


@pytest.mark.req("M-23")
def test_who_may_make_and_see_one(mailbox: Mailbox, other_firm: Firm) -> None:
    profile = make_profile(mailbox)
    owner, colleague, admin = (
        browser_of(mailbox.firm, role) for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    )
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(owner_id=int(owner.session["_auth_user_id"]))
    assert make(colleague, mailbox, profile.pk).status_code == 403
    assert make(owner, mailbox, profile.pk).status_code == 302
    row = only(stored(AgentSchedule))
    assert row.user_id is None
    assert colleague.get(page(row)).status_code == 200
    for name in ("edit", "remove"):
        assert colleague.get(operation_url(row, name)).status_code == 403
        assert admin.get(operation_url(row, name)).status_code == 200
    stranger = browser_of(other_firm, Role.ADMIN)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)
    for unseen in (colleague, admin, stranger):
        assert "Morning" not in unseen.get(reverse(LIST)).content.decode()
        assert unseen.get(page(row)).status_code == 404
        for name in ("edit", "remove"):
            assert unseen.get(operation_url(row, name)).status_code == 404
        # The colleague, who is no admin and owns no mailbox, may create no schedule at all.
        refused = 403 if unseen is colleague else 400
        assert make(unseen, mailbox, profile.pk, name="Spy").status_code == refused
    assert submit(owner, row, "edit", prompt="Who waits?").status_code == 302
    assert now(row).prompt == "Who waits?"


def test_an_owner_cannot_move_one_to_another_persons_mailbox(mailbox: Mailbox) -> None:
    owner, profile = browser_of(mailbox.firm, Role.VIEWER), make_profile(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(owner_id=int(owner.session["_auth_user_id"]))
        theirs = MailAccount.objects.create(
            firm=mailbox.firm, address="b@acme.example", shared=True, owner=UserFactory()
        )
    make(owner, mailbox, profile.pk)
    row = only(stored(AgentSchedule))
    assert submit(owner, row, "edit", account_id=str(theirs.pk)).status_code == 403
    assert now(row).account_id == mailbox.account.pk
