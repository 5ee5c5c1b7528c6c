"""Notification preferences over REST: who may make, change and reset them."""

from __future__ import annotations

from typing import Any

import pytest

from mail.models import NotificationPreference
from mail.services.reminders.preferences import addressee
from tenants.api import keys
from tenants.audit import SERVICE
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import audit_entries
from tests.jobs.api.conftest import fields, problem
from tests.mail.api.test_rules import Api as RulesApi
from tests.mail.mail_kit import only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-04")]

WEBHOOK = "https://discord.example/api/webhooks/1/s3cr3t"
NIGHT = {"time_zone": "Europe/Vienna", "quiet_from": "22:00", "quiet_until": "07:00:30"}


class Api(RulesApi):
    """A member of a firm who sends requests with an API key."""

    root = "/api/v1/mail/notification-preferences/"


def test_preferences_from_their_making_to_their_end(firm: Firm) -> None:
    api = Api(firm, Role.VIEWER)
    made = api.send(**NIGHT, discord_webhook=WEBHOOK)
    assert made.status_code == 201, made.content
    shown = made.json()
    assert shown | NIGHT | {"quiet_from": "22:00:00"} == shown
    assert (shown["email"], shown["discord"]) == (True, True)
    path = f"{shown['id']}/"
    assert api.get(path).json() == shown
    assert api.get().json() == {"results": [shown], "next": None}
    assert problem(api.send(**NIGHT), 409)["code"] == "wrong_state"

    row = only(stored(NotificationPreference))
    with firm_scope(firm):
        assert WEBHOOK in addressee(firm.pk, row.user).targets.values()
    assert (shown["digest_at"], shown["next_digest_at"]) == (None, None)
    daily = api.send(path, method="patch", digest_at="07:30").json()
    assert daily["digest_at"] == "07:30:00"
    # 07:30 in Vienna.
    assert daily["next_digest_at"][11:16] in ("05:30", "06:30")
    changed = api.send(
        path, method="patch", email=False, quiet_from=None, quiet_until=None, reason="on call"
    ).json()
    # Settings that are left out stay, the webhook too.
    assert (changed["email"], changed["quiet_from"], changed["discord"]) == (False, None, True)
    assert changed["time_zone"] == "Europe/Vienna"
    assert api.send(path, method="patch", discord_webhook="").json()["discord"] is False
    assert api.send(path + "reset/").json()["id"] == shown["id"]
    assert api.get(path).status_code == 404
    assert stored(NotificationPreference) == []
    entries = audit_entries(shown["id"])
    assert [(entry.act, entry.reason) for entry in entries] == [
        ("notification_preference.change", ""),
        ("notification_preference.change", ""),
        ("notification_preference.change", "on call"),
        ("notification_preference.change", ""),
        ("notification_preference.reset", ""),
    ]
    assert "s3cr3t" not in str([(entry.before, entry.after) for entry in entries])
    assert b"s3cr3t" not in made.content


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"time_zone": "Vienna"}, "time_zone", "must be the name of a zone"),
        ({"time_zone": 1}, "time_zone", "Not a valid string"),
        ({"quiet_from": "22:00"}, "quiet_until", "needs quiet_from too: give both times"),
        ({"quiet_from": "25:00", "quiet_until": "07:00"}, "quiet_from", "wrong format"),
        ({"digest_at": "07:30:30"}, "digest_at", "must be a whole minute"),
        ({"digest_at": "noon"}, "digest_at", "wrong format"),
        ({"quiet_from": 22, "quiet_until": "07:00"}, "quiet_from", "wrong format"),
        ({"email": "yes"}, "email", "valid boolean"),
        ({"discord_webhook": "discord.example"}, "discord_webhook", ""),
        ({"user": "anna"}, "user", "not known here"),
    ],
)
def test_bad_input_names_its_field(
    firm: Firm, body: dict[str, Any], field: str, message: str
) -> None:
    api = Api(firm)
    answer = api.send(**{"time_zone": "UTC", **body})
    faults = {fault["field"]: fault["message"] for fault in problem(answer, 400)["errors"]}
    assert message in faults[field]
    assert stored(NotificationPreference) == []
    path = f"{api.send(time_zone='UTC').json()['id']}/"
    assert field in fields(api.send(path, method="patch", **body))
    assert only(stored(NotificationPreference)).time_zone == "UTC"


def test_a_persons_preferences_are_theirs_and_an_admins_to_reset(
    firm: Firm, other_firm: Firm
) -> None:
    anna, colleague, admin = Api(firm, Role.VIEWER), Api(firm, Role.DEVELOPER), Api(firm)
    stranger = Api(other_firm)
    path = f"{anna.send(**NIGHT).json()['id']}/"
    for unseen in (colleague, stranger):
        assert unseen.get().json()["results"] == []
        for answer in (
            unseen.get(path),
            unseen.send(path, method="patch", email=False),
            unseen.send(path + "reset/"),
        ):
            assert answer.status_code == 404
    assert stranger.send(**NIGHT, firm=firm.slug).status_code == 404
    assert admin.get(path).json()["time_zone"] == "Europe/Vienna"
    assert admin.send(path, method="patch", email=False).status_code == 403
    assert only(stored(NotificationPreference)).email is True
    assert admin.send(path + "reset/").status_code == 200
    assert stored(NotificationPreference) == []


def test_who_is_no_member_has_none(firm: Firm) -> None:
    api = Api(firm)
    staff = UserFactory(is_superuser=True, is_staff=True)
    key, _ = keys.issue(staff, firm, Role.ADMIN, lifetime=None, by=SERVICE)
    api.headers = {"Authorization": f"Bearer {key}"}
    assert problem(api.send(**NIGHT), 400)["errors"][0]["field"] == "firm"
    assert stored(NotificationPreference) == []
