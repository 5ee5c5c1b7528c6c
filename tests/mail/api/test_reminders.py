"""Reminders over REST: whose they are, what is refused, and what the audit log keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.testing import frozen_time
from mail.models import Reminder
from mail.services.reminders.delivery import enqueue_due_reminders
from tenants.models import Firm, Role
from tests.jobs.admin.pages import audit_entries
from tests.jobs.api.conftest import fields, problem
from tests.mail.api.test_rules import Api as RulesApi
from tests.mail.mail_kit import only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-03")]

DUE = "2099-05-04T09:00:00.000Z"
WEEKLY = {"title": "Price list", "cron": "0 9 * * MON", "time_zone": "Europe/Vienna"}
DATES = "give either a cron expression or an interval"


class Api(RulesApi):
    """A member of a firm who sends requests with an API key."""

    root = "/api/v1/mail/reminders/"


def test_a_reminder_from_its_making_to_its_end(firm: Firm) -> None:
    api = Api(firm, Role.VIEWER)
    made = api.send(title=" Call\nAnna ", body="About the offer", due_at=DUE)
    assert made.status_code == 201, made.content
    reminder = made.json()
    assert (reminder["title"], reminder["body"]) == ("Call Anna", "About the offer")
    assert (reminder["due_at"], reminder["status"]) == (DUE, "active")
    path = f"{reminder['id']}/"
    assert api.get(path).json() == reminder
    assert api.get().json() == {"results": [reminder], "next": None}

    moved = api.send(
        path, method="patch", due_at="2099-05-05T11:00:00+02:00", reason="holiday"
    ).json()
    assert (moved["due_at"], moved["title"]) == ("2099-05-05T09:00:00.000Z", "Call Anna")
    canceled = api.send(path + "cancel/").json()
    assert (canceled["status"], canceled["due_at"]) == ("canceled", None)
    assert problem(api.send(path + "cancel/"), 409)["code"] == "wrong_state"
    assert problem(api.send(path, method="patch", title="b"), 409)["code"] == "wrong_state"
    assert api.send(path + "delete/").json()["id"] == reminder["id"]
    assert api.get(path).status_code == 404
    assert stored(Reminder) == []
    entries = audit_entries(reminder["id"])
    assert [entry.act for entry in entries] == [
        "reminder.create", "reminder.change", "reminder.cancel", "reminder.delete",
    ]  # fmt: skip
    assert entries[1].reason == "holiday"
    # Only the reminder's person sees its text, so the audit log has none of it.
    assert "Anna" not in str([(entry.before, entry.after) for entry in entries])


def test_a_new_timetable_makes_its_own_next_date(firm: Firm) -> None:
    api = Api(firm)
    path = f"{api.send(**WEEKLY).json()['id']}/"
    daily = api.send(path, method="patch", cron=None, interval_seconds=86_400).json()
    assert daily["cron"] is None
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert abs(datetime.fromisoformat(daily["due_at"]) - tomorrow) < timedelta(minutes=5)
    once = api.send(path, method="patch", interval_seconds=None, time_zone="UTC").json()
    assert (once["interval_seconds"], once["due_at"]) == (None, daily["due_at"])


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"title": None}, "title", "may not be null"),
        ({"title": "  "}, "title", "may not be blank"),
        ({"title": 7}, "title", "Not a valid string"),
        ({"title": "x" * 201}, "title", "no more than 200"),
        ({"title": "a\x1bb"}, "title", "one line of 1 to 200 characters"),
        ({"body": "x" * 2001}, "body", "no more than 2000"),
        ({"body": "a\0b"}, "body", "Null characters"),
        ({"body": None}, "body", "may not be null"),
        ({"due_at": "tomorrow"}, "due_at", "Datetime has wrong format"),
        ({"due_at": "2099-05-04T09:00:00"}, "due_at", "offset from UTC"),
        ({"due_at": "2099-05-04T09:00", "time_zone": "Europe/Vienna"}, "due_at", "offset from UTC"),
        ({"due_at": "2020-01-01T00:00:00Z"}, "due_at", "must be in the future"),
        ({"due_at": "9999-01-01T00:00:00Z"}, "due_at", "year from 1970 to 9000"),
        ({"due_at": None}, "due_at", "is missing: give it, or a cron expression"),
        ({"cron": "every day"}, "cron", "must have 5 fields"),
        ({"cron": "61 * * * *"}, "cron", "Bad minute"),
        ({"cron": "0 0 30 2 *"}, "cron", "Bad day-of-month"),
        ({"cron": "x" * 101}, "cron", "no more than 100"),
        ({"cron": "0 9 * * *", "interval_seconds": 60}, "cron", DATES),
        ({"interval_seconds": 0}, "interval_seconds", "greater than or equal to 1"),
        ({"interval_seconds": "60"}, "interval_seconds", "valid integer"),
        ({"interval_seconds": 10**11}, "interval_seconds", "less than or equal to"),
        ({"cron": "0 9 * * *", "time_zone": "Mars/Olympus"}, "time_zone", "is no time zone"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "is no time zone"),
        ({"firm": 7}, "firm", "Not a valid string"),
        ({"user": "somebody"}, "user", "not known here"),
        ({"status": "delivered"}, "status", "not known here"),
        ({"planned_at": DUE}, "planned_at", "not known here"),
    ],
)
def test_bad_input_names_its_field(
    firm: Firm, body: dict[str, Any], field: str, message: str
) -> None:
    api = Api(firm)
    answer = api.send(**{"title": "a", "due_at": DUE, **body})
    faults = {fault["field"]: fault["message"] for fault in problem(answer, 400)["errors"]}
    assert message in faults.get(field, ""), faults
    assert stored(Reminder) == []
    if field == "firm":
        return
    path = f"{api.send(title='a', due_at=DUE).json()['id']}/"
    changed = api.send(path, method="patch", **body)
    assert field in fields(changed)
    assert only(stored(Reminder)).due_at == datetime.fromisoformat(DUE)


def test_what_a_reminder_says_is_for_its_person_alone(firm: Firm) -> None:
    anna, other, admin = Api(firm, Role.VIEWER), Api(firm, Role.DEVELOPER), Api(firm)
    path = f"{anna.send(title='Secret', body='secret', due_at=DUE).json()['id']}/"
    for colleague in (other, admin):
        seen = colleague.get(path)
        assert (seen.json()["title"], seen.json()["body"]) == (None, None)
        assert b"ecret" not in seen.content + colleague.get().content
        assert colleague.get("?user=me").json()["results"] == []
        assert colleague.send(path, method="patch", title="a").status_code == 403
    assert other.send(path + "cancel/").status_code == 403
    assert other.send(path + "delete/").status_code == 403
    ended = admin.send(path + "cancel/")
    assert (ended.json()["status"], ended.json()["title"]) == ("canceled", None)
    assert anna.get("?user=me&status=canceled").json()["results"][0]["title"] == "Secret"
    assert anna.get("?status=active").json()["results"] == []
    assert b"ecret" not in admin.send(path + "delete/").content
    assert stored(Reminder) == []


def test_another_firms_reminder_is_not_there(firm: Firm, other_firm: Firm) -> None:
    path = f"{Api(firm).send(title='a', due_at=DUE).json()['id']}/"
    stranger = Api(other_firm)
    assert stranger.get().json()["results"] == []
    for answer in (
        stranger.get(path),
        stranger.send(path, method="patch", title="b"),
        stranger.send(path + "cancel/"),
        stranger.send(path + "delete/"),
        stranger.send(title="a", due_at=DUE, firm=firm.slug),
    ):
        assert answer.status_code == 404
    assert only(stored(Reminder)).status == "active"


def test_lists_take_the_parameters_they_name(firm: Firm) -> None:
    api = Api(firm)
    for number in range(3):
        api.send(title=str(number), due_at=DUE)
    first = api.get("?limit=2").json()
    second = api.get(f"?limit=2&cursor={first['next']}").json()
    titles = [row["title"] for row in first["results"] + second["results"]]
    assert (titles, second["next"]) == (["2", "1", "0"], None)
    for query in ("title=0", "user=anna", "status=lost", "limit=0", "cursor=x", "user=me&user=me"):
        assert problem(api.get(f"?{query}"), 400)["errors"][0]["field"] in query


def test_what_was_made_over_rest_is_enqueued_when_it_is_due(firm: Firm) -> None:
    Api(firm).send(title="a", due_at=DUE)
    with frozen_time(datetime.fromisoformat(DUE) + timedelta(seconds=1)):
        assert enqueue_due_reminders(lambda: None) == 1
