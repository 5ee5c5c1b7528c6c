"""Pausing and resuming over REST: for one firm and for every firm, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from interfaces.moments import iso
from jobs.models import Pause
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, key_for, problem
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "J-23")]


def member_of(*roles: tuple[Firm, Role]) -> Api:
    """Return a user in a browser, with these roles in these firms."""
    user = UserFactory(username="both", is_staff=True)
    with all_firms("test"):
        for firm, role in roles:
            MembershipFactory(firm=firm, user=user, role=role)
    client = Client()
    client.force_login(user)
    return Api(client=client)


def stored() -> list[tuple[str, bool, str, str]]:
    """Return the pauses that the fixtures did not make."""
    return [
        (pause.firm.slug, pause.everywhere, pause.category, pause.job_type)
        for pause in rows(Pause)
        if not pause.reason.startswith("canary")
    ]


@pytest.mark.req("T-05")
def test_work_of_the_only_firm_is_paused_and_resumed(operator: Api, acme: FirmRows) -> None:
    until = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    body = {
        "category": "maintenance",
        "job_type": "noop",
        "reason": "it floods us",
        "until": iso(until),
    }
    answer = operator.post("pauses/", body)
    assert answer.status_code == 200, answer.content
    shown = answer.json()
    assert shown == {
        "id": shown["id"],
        "firm": "acme",
        "everywhere": False,
        "category": "maintenance",
        "job_type": "noop",
        "limit_key": None,
        "reason": "it floods us",
        "paused_by": "operator@acme.example",
        "created_at": shown["created_at"],
        "until": iso(until),
    }
    assert operator.results("pauses/")[0] == shown
    resumed = operator.post(f"pauses/{shown['id']}/resume/", {"reason": "calm again"})
    assert (resumed.status_code, resumed.json()) == (200, shown)
    assert stored() == []
    assert [(entry.act, entry.door, entry.reason) for entry in audit_log()] == [
        ("pause.set", "api", "it floods us"),
        ("pause.lift", "api", "calm again"),
    ]
    problem(operator.post(f"pauses/{shown['id']}/resume/"), 404)


def test_what_is_left_out_or_null_means_all_of_it(operator: Api, acme: FirmRows) -> None:
    answer = operator.post("pauses/", {"reason": "stop", "category": None, "until": None})
    shown = answer.json()
    assert (shown["category"], shown["job_type"], shown["until"]) == (None, None, None)
    assert stored() == [("acme", False, "", "")]


@pytest.mark.req("J-24")
def test_one_limit_key_is_paused(operator: Api, acme: FirmRows) -> None:
    shown = operator.post("pauses/", {"reason": "stop", "limit_key": "mailbox:1"}).json()
    assert (shown["limit_key"], shown["job_type"]) == ("mailbox:1", None)
    assert operator.post("pauses/", {"reason": "stop"}).json()["limit_key"] is None


def test_the_same_is_paused_once(operator: Api, acme: FirmRows) -> None:
    body = {"category": "sync", "reason": "first"}
    assert operator.post("pauses/", body).status_code == 200
    assert problem(operator.post("pauses/", {**body, "reason": "again"}), 409)["code"] == (
        "wrong_state"
    )
    assert [pause.reason for pause in rows(Pause) if pause.category == "sync"] == ["first"]
    assert len(audit_log()) == 1


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"category": "exports"}, {"category": "invalid_choice"}),
        ({"category": ""}, {"category": "invalid_choice"}),
        ({"job_type": "noob"}, {"job_type": "unknown"}),
        ({"job_type": "noop", "category": "sync"}, {"category": "conflict"}),
        ({"until": "2001-01-01T00:00:00Z"}, {"until": "past"}),
        ({"until": "soon"}, {"until": "invalid"}),
        ({"everywhere": "yes"}, {"everywhere": "invalid"}),
        ({"reason": " "}, {"reason": "blank"}),
        ({"colour": "red"}, {"colour": "unknown_field"}),
    ],
    ids=str,
)
def test_a_field_that_is_wrong_is_named(
    change: dict[str, Any], faults: dict[str, str], operator: Api, acme: FirmRows
) -> None:
    assert fields(operator.post("pauses/", {"reason": "stop", **change})) == faults
    assert stored() == []
    assert audit_log() == []


def test_a_misspelt_type_is_told_what_may_be_meant(operator: Api, acme: FirmRows) -> None:
    (fault,) = problem(operator.post("pauses/", {"reason": "stop", "job_type": "nopo"}), 400)[
        "errors"
    ]
    assert "did you mean noop?" in fault["message"]


def test_an_act_takes_no_query(operator: Api, acme: FirmRows) -> None:
    for query in ("firm=acme", "limit=1"):
        refused = operator.post(f"pauses/?{query}", {"reason": "stop"})
        assert fields(refused) == {query.partition("=")[0]: "unknown_field"}
    assert stored() == []


@pytest.mark.req("T-03")
def test_to_pause_everywhere_is_for_platform_staff(
    admin: Api, staff: Api, acme: FirmRows, system_firm: Firm
) -> None:
    body = {"everywhere": True, "job_type": "noop", "reason": "the provider is down"}
    problem(admin.post("pauses/", body), 403)
    of_system = Api(key_for(system_firm, Role.ADMIN))
    problem(of_system.post("pauses/", body), 403)
    answer = staff.post("pauses/", body)
    assert (answer.json()["firm"], answer.json()["everywhere"]) == (None, True)
    assert stored() == [("system", True, "", "noop")]
    where = f"pauses/{answer.json()['id']}/resume/"
    # The pause belongs to the system firm: its members see the pause, those of other firms do not.
    assert [row["firm"] for row in admin.results("pauses/")] == ["acme"]
    problem(admin.post(where), 404)
    problem(of_system.post(where), 403)
    assert staff.post(where).status_code == 200
    assert stored() == []


def test_staff_says_which_firm_or_all_of_them(staff: Api, acme: FirmRows, globex: FirmRows) -> None:
    assert fields(staff.post("pauses/", {"reason": "stop"})) == {"firm": "required"}
    both = {"reason": "stop", "everywhere": True, "firm": "acme"}
    assert fields(staff.post("pauses/", both)) == {"everywhere": "invalid"}
    assert staff.post("pauses/", {"reason": "stop", "firm": "globex"}).json()["firm"] == "globex"
    problem(staff.post("pauses/", {"reason": "stop", "firm": "nowhere"}), 404)
    assert stored() == [("globex", False, "", "")]


@pytest.mark.req("T-01", "T-03")
def test_a_member_of_several_firms_acts_by_the_role_in_the_one_named(
    acme: FirmRows, globex: FirmRows
) -> None:
    api = member_of((acme.firm, Role.VIEWER), (globex.firm, Role.OPERATOR))
    assert fields(api.post("pauses/", {"reason": "stop"})) == {"firm": "required"}
    problem(api.post("pauses/", {"reason": "stop", "firm": "acme"}), 403)
    assert api.post("pauses/", {"reason": "stop", "firm": "globex"}).status_code == 200
    assert stored() == [("globex", False, "", "")]
    listed = {row["firm"] for row in api.results("pauses/")}
    assert listed == {"acme", "globex"}
    assert {row["firm"] for row in api.results("pauses/", {"firm": "acme"})} == {"acme"}


@pytest.mark.req("T-03")
def test_another_firm_is_neither_paused_nor_resumed(
    operator: Api, acme: FirmRows, globex: FirmRows
) -> None:
    foreign = problem(operator.post("pauses/", {"reason": "stop", "firm": "globex"}), 404)
    unknown = problem(operator.post("pauses/", {"reason": "stop", "firm": "nowhere"}), 404)
    assert foreign["detail"] == unknown["detail"]
    problem(operator.post(f"pauses/{globex.pause.pk}/resume/"), 404)
    assert globex.pause in rows(Pause)
    assert stored() == []


@pytest.mark.req("J-25")
def test_a_job_that_a_pause_holds_says_so(operator: Api, staff: Api, acme: FirmRows) -> None:
    body = {"everywhere": True, "category": "maintenance", "reason": "before the deploy"}
    assert staff.post("pauses/", body).status_code == 200
    waits = operator.get(f"jobs/{acme.waiting.pk}/").json()["why_waiting"]
    (told,) = [reason for reason in waits if reason["code"] == "paused"]
    assert "before the deploy" in told["detail"]
