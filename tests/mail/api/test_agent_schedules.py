"""Agents' schedules over REST: who may make, change and delete them; bad input names its field."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from mail.models import AgentSchedule, MailAccount
from mail.services.agents.profiles import create_profile
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.jobs.admin.pages import audit_entries
from tests.jobs.api.conftest import problem
from tests.mail.agent_kit import make_profile
from tests.mail.api.test_rules import Api as RulesApi
from tests.mail.mail_kit import Mailbox, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-02")]

DUE = "2099-05-04T09:00:00.000Z"


class Api(RulesApi):
    """A member of a firm who sends requests with an API key."""

    root = "/api/v1/mail/agent-schedules/"


def morning(box: Mailbox, **settings: Any) -> dict[str, Any]:
    """Return the body of a schedule."""
    given = {
        "name": "Morning",
        "account_id": str(box.account.pk),
        "profile": "shop",
        "prompt": "What waits for me?",
        "cron": "0 7 * * *",
        "time_zone": "Europe/Vienna",
    }
    return {**given, **settings}


def test_a_schedule_from_its_making_to_its_end(mailbox: Mailbox) -> None:
    make_profile(mailbox)
    other = create_profile(mailbox.firm.pk, name="desk", instructions="Be brief.")
    api = Api(mailbox.firm)
    made = api.send(**morning(mailbox), user="me")
    assert made.status_code == 201, made.content
    shown = made.json()
    assert shown | morning(mailbox) == shown
    assert (shown["enabled"], shown["queued_at"]) == (True, None)
    row = only(stored(AgentSchedule))
    assert shown["user"] == row.user.username
    path = f"{shown['id']}/"
    assert api.get(path).json() == shown
    assert api.get().json() == {"results": [shown], "next": None}

    once = api.send(path, method="patch", cron=None, due_at=DUE).json()
    assert (once["cron"], once["due_at"]) == (None, DUE)
    # If only the time zone of a schedule with a single date changes, the date stays.
    moved = api.send(path, method="patch", time_zone="UTC", reason="moved")
    assert moved.status_code == 200, moved.content
    assert (moved.json()["due_at"], moved.json()["time_zone"]) == (DUE, "UTC")
    daily = api.send(path, method="patch", cron="0 9 * * *", profile="desk", enabled=False).json()
    assert daily["due_at"] < DUE
    assert (daily["profile"], daily["enabled"]) == ("desk", False)
    assert only(stored(AgentSchedule)).profile_id == other.pk

    assert api.send(path + "delete/").json()["id"] == shown["id"]
    assert api.get(path).status_code == 404
    acts = [(entry.act, entry.door) for entry in audit_entries(shown["id"])]
    assert acts[0] == ("agent_schedule.create", "api")
    assert acts[1:-1] == [("agent_schedule.change", "api")] * 3
    assert acts[-1] == ("agent_schedule.delete", "api")


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"name": ""}, "name", "may not be blank"),
        ({"name": "x" * 101}, "name", "no more than 100"),
        ({"name": "Other"}, "name", "is the name of another schedule"),
        ({"prompt": " "}, "prompt", "may not be blank"),
        ({"prompt": "x" * 4001}, "prompt", "no more than 4000"),
        ({"profile": "nobody"}, "profile", "No agent of the firm"),
        ({"account_id": str(uuid4())}, "account_id", "no mailbox that you may read"),
        ({"account_id": None}, "account_id", "may not be null"),
        ({"cron": "daily"}, "cron", "must have 5 fields"),
        ({"interval_seconds": 60}, "cron", "give either a cron expression or an interval"),
        ({"cron": None}, "due_at", "is missing"),
        ({"time_zone": "Mars"}, "time_zone", "is no time zone"),
        ({"enabled": "yes"}, "enabled", "valid boolean"),
        ({"profile_id": str(uuid4())}, "profile_id", "not known here"),
        ({"user": "anna"}, "user", ""),
    ],
)
def test_bad_input_names_its_field(
    mailbox: Mailbox, body: dict[str, Any], field: str, message: str
) -> None:
    make_profile(mailbox)
    api = Api(mailbox.firm)
    assert api.send(**morning(mailbox, name="Other")).status_code == 201
    answer = api.send(**morning(mailbox, **body))
    faults = {fault["field"]: fault["message"] for fault in problem(answer, 400)["errors"]}
    assert message in faults.get(field, ""), faults
    assert len(stored(AgentSchedule)) == 1


@pytest.mark.req("M-23")
def test_a_schedule_is_for_the_owner_and_an_admin_who_may_read_the_mailbox(
    mailbox: Mailbox,
) -> None:
    make_profile(mailbox)
    owner, colleague, admin = (
        Api(mailbox.firm, role) for role in (Role.VIEWER, Role.DEVELOPER, Role.ADMIN)
    )
    assert colleague.send(**morning(mailbox)).status_code == 403
    path = f"{admin.send(**morning(mailbox)).json()['id']}/"
    assert colleague.get(path).status_code == 200
    assert colleague.send(path, method="patch", enabled=False).status_code == 403
    assert colleague.send(path + "delete/").status_code == 403
    from tenants.models import Membership

    with firm_scope(mailbox.firm):
        viewer = Membership.objects.get(role=Role.VIEWER).user_id
        MailAccount.objects.update(shared=False, owner_id=viewer)
    assert owner.send(path, method="patch", enabled=False).status_code == 200
    for unseen in (colleague, admin):
        assert unseen.get().json()["results"] == []
        assert unseen.get(path).status_code == 404
        assert unseen.send(path, method="patch", enabled=True).status_code == 404
        assert unseen.send(path + "delete/").status_code == 404
        spied = unseen.send(**morning(mailbox, name="Spy"))
        assert problem(spied, 400)["errors"][0]["field"] == "account_id"
    assert only(stored(AgentSchedule)).enabled is False


def test_another_firms_schedule_is_not_there(mailbox: Mailbox, other_firm: Firm) -> None:
    make_profile(mailbox)
    path = f"{Api(mailbox.firm).send(**morning(mailbox)).json()['id']}/"
    stranger = Api(other_firm)
    assert stranger.get().json()["results"] == []
    for answer in (
        stranger.get(path),
        stranger.send(path, method="patch", enabled=False),
        stranger.send(path + "delete/"),
        stranger.send(**morning(mailbox, firm=mailbox.firm.slug)),
    ):
        assert answer.status_code == 404
    # Neither another firm's mailbox nor its agent can be named.
    assert stranger.send(**morning(mailbox)).status_code == 400
    assert only(stored(AgentSchedule)).enabled is True
