"""Rate limits over REST: set for one firm or for every firm, replaced, cleared, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.models import RateLimit
from tenants.models import Firm, Role
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, key_for, problem
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "J-23")]

TEN_A_MINUTE = {"job_type": "noop", "amount": 10, "per_seconds": 60}


def stored() -> list[tuple[str, bool, str, int, float, int]]:
    """Return the limits that the fixtures did not make."""
    return [
        (one.firm.slug, one.everywhere, one.job_type, one.amount, one.per_seconds, one.burst)
        for one in rows(RateLimit)
        if not one.job_type.startswith("canary")
    ]


@pytest.mark.req("T-05")
def test_a_limit_is_set_replaced_listed_and_cleared(admin: Api, acme: FirmRows) -> None:
    answer = admin.post("rate-limits/", TEN_A_MINUTE)
    assert answer.status_code == 200, answer.content
    shown = answer.json()
    assert shown == {
        "id": shown["id"],
        "firm": "acme",
        "everywhere": False,
        "counted_by": "firm",
        "limit_key": None,
        **TEN_A_MINUTE,
        "burst": 10,
        "created_at": shown["created_at"],
    }
    again = admin.post("rate-limits/", {**TEN_A_MINUTE, "per_seconds": 0.5, "burst": 2})
    assert stored() == [("acme", False, "noop", 10, 0.5, 2)]
    assert again.json() in admin.results("rate-limits/")
    cleared = admin.post(f"rate-limits/{again.json()['id']}/clear/", {"reason": "calm"})
    assert (cleared.status_code, cleared.json()) == (200, again.json())
    assert stored() == []
    log = [(entry.act, entry.door, entry.reason) for entry in audit_log()]
    assert [(act, door) for act, door, _ in log] == [
        ("rate_limit.set", "api"),
        ("rate_limit.set", "api"),
        ("rate_limit.clear", "api"),
    ]
    assert log[-1][2] == "calm"
    problem(admin.post(f"rate-limits/{again.json()['id']}/clear/"), 404)


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"job_type": "nopo"}, {"job_type": "unknown"}),
        ({"job_type": None}, {"job_type": "missing"}),
        ({"job_type": 1}, {"job_type": "invalid"}),
        ({"counted_by": "keys"}, {"counted_by": "invalid_choice"}),
        ({"counted_by": "all_firms"}, {"counted_by": "conflict"}),
        ({"limit_key": "mailbox:1"}, {"limit_key": "conflict"}),
        ({"limit_key": "x" * 201}, {"limit_key": "max_length"}),
        ({"limit_key": ""}, {"limit_key": "blank"}),
        ({"amount": 0}, {"amount": "min_value"}),
        ({"amount": 1.5}, {"amount": "invalid"}),
        ({"amount": 2**31}, {"amount": "max_value"}),
        ({"per_seconds": 0}, {"per_seconds": "min_value"}),
        ({"per_seconds": "60"}, {"per_seconds": "invalid"}),
        ({"per_seconds": True}, {"per_seconds": "invalid"}),
        ({"per_seconds": 10**400}, {"per_seconds": "invalid"}),
        ({"burst": -1}, {"burst": "min_value"}),
        ({"everywhere": 1}, {"everywhere": "invalid"}),
        ({"colour": "red"}, {"colour": "unknown_field"}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_field_that_is_wrong_is_named(
    change: dict[str, Any], faults: dict[str, str], admin: Api, acme: FirmRows
) -> None:
    assert fields(admin.post("rate-limits/", {**TEN_A_MINUTE, **change})) == faults
    assert stored() == []


@pytest.mark.req("J-24")
def test_each_limit_key_is_limited_and_one_of_them_more(admin: Api, acme: FirmRows) -> None:
    quota = {"counted_by": "key", "amount": 250, "per_seconds": 1}
    of_each = admin.post("rate-limits/", quota).json()
    assert (of_each["job_type"], of_each["limit_key"], of_each["counted_by"]) == (
        *(None, None, "key"),
    )
    of_one = admin.post("rate-limits/", {**quota, "limit_key": "mailbox:1", "amount": 50}).json()
    assert (of_one["limit_key"], of_one["amount"]) == ("mailbox:1", 50)
    assert {one["id"] for one in admin.results("rate-limits/")} >= {of_each["id"], of_one["id"]}


@pytest.mark.req("J-24", "T-03")
def test_platform_staff_limits_all_firms_together(
    staff: Api, acme: FirmRows, system_firm: Firm
) -> None:
    answer = staff.post(
        "rate-limits/", {**TEN_A_MINUTE, "everywhere": True, "counted_by": "all_firms"}
    )
    assert (answer.status_code, answer.json()["counted_by"]) == (200, "all_firms")


@pytest.mark.req("T-03")
def test_a_limit_for_every_firm_is_for_platform_staff(
    admin: Api, staff: Api, acme: FirmRows, system_firm: Firm
) -> None:
    everywhere = {**TEN_A_MINUTE, "everywhere": True}
    of_system = Api(key_for(system_firm, Role.ADMIN))
    for api in (admin, of_system):
        problem(api.post("rate-limits/", everywhere), 403)
    answer = staff.post("rate-limits/", everywhere)
    assert (answer.json()["firm"], answer.json()["everywhere"]) == (None, True)
    where = f"rate-limits/{answer.json()['id']}/clear/"
    problem(admin.post(where), 404)
    problem(of_system.post(where), 403)
    assert staff.post(where).status_code == 200
    assert stored() == []
    both = {**everywhere, "firm": "acme"}
    assert fields(staff.post("rate-limits/", both)) == {"everywhere": "invalid"}
    assert fields(staff.post("rate-limits/", TEN_A_MINUTE)) == {"firm": "required"}


@pytest.mark.req("T-01", "T-03")
def test_another_firms_limits_are_out_of_reach(
    admin: Api, acme: FirmRows, globex: FirmRows
) -> None:
    foreign = problem(admin.post("rate-limits/", {**TEN_A_MINUTE, "firm": "globex"}), 404)
    unknown = problem(admin.post("rate-limits/", {**TEN_A_MINUTE, "firm": "nowhere"}), 404)
    assert foreign["detail"] == unknown["detail"]
    problem(admin.post(f"rate-limits/{globex.rate_limit.pk}/clear/"), 404)
    assert globex.rate_limit in rows(RateLimit)
