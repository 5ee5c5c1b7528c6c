"""The audit log over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tenants.models import Role
from tenants.scope import all_firms
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, fields, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "T-05")]


@pytest.fixture
def cancels(operator: Api, staff: Api, acme: FirmRows, globex: FirmRows) -> None:
    """Cancel a job in each firm."""
    for rows, api in ((acme, operator), (globex, staff)):
        path = f"jobs/{rows.waiting.pk}/cancel/"
        assert api.post(path, {"reason": rows.canary}, **{"X-Correlation-ID": rows.canary})


def cancels_in(api: Api, **query: str) -> list[dict[str, Any]]:
    return api.results("audit/", {"operation": "job.cancel", **query})


@pytest.mark.usefixtures("cancels")
def test_an_entry_says_who_did_what_when_and_why(admin: Api, acme: FirmRows) -> None:
    (entry,) = cancels_in(admin)
    assert entry["created_at"].endswith("Z")
    del entry["id"], entry["created_at"]
    assert entry == {
        "firm": "acme",
        "actor": "operator@acme.example",
        "door": "api",
        "operation": "job.cancel",
        "target_type": "job",
        "target_id": str(acme.waiting.pk),
        "reason": "canary-acme",
        "before": {"status": "pending"},
        "after": {"status": "canceled"},
        "correlation_id": "canary-acme",
    }


@pytest.mark.usefixtures("cancels")
def test_filters_are_combined(admin: Api, acme: FirmRows) -> None:
    found = {"door": "api", "actor": "operator@acme.example", "target_id": str(acme.waiting.pk)}
    (entry,) = cancels_in(admin, **found, target_type="job")
    period = {"created_after": "2020-01-01T00:00:00Z", "created_before": "2099-01-01T00:00:00Z"}
    assert cancels_in(admin, **found, **period) == [entry]
    for other in (
        {"door": "cli"},
        {"actor": "nobody"},
        {"target_type": "lock"},
        {"correlation_id": "canary-globex"},
        {"created_before": "2020-01-01T00:00:00Z"},
        {"created_after": "2099-01-01T00:00:00Z"},
    ):
        assert cancels_in(admin, **{**found, **other}) == []
    assert fields(admin.get("audit/", {"colour": "red"})) == {"colour": "unknown_field"}
    assert fields(admin.get("audit/", {"door": "window"})) == {"door": "invalid_choice"}


@pytest.mark.usefixtures("cancels")
def test_pages_follow_each_other(staff: Api) -> None:
    first = staff.get("audit/", {"operation": "job.cancel", "limit": 1}).json()
    query = {"operation": "job.cancel", "cursor": first["next"]}
    second = staff.get("audit/", query).json()
    assert [entry["firm"] for entry in first["results"] + second["results"]] == ["globex", "acme"]
    assert second["next"] is None


@pytest.mark.req("T-03")
@pytest.mark.usefixtures("cancels")
def test_an_admin_reads_the_log_of_their_own_firms_alone(
    admin: Api, operator: Api, acme: FirmRows, globex: FirmRows
) -> None:
    assert {entry["firm"] for entry in admin.results("audit/")} == {"acme"}
    problem(admin.get("audit/", {"firm": "globex"}), 404)
    problem(operator.get("audit/"), 403)
    both = UserFactory(username="both", is_staff=True)
    with all_firms("test"):
        MembershipFactory(firm=acme.firm, user=both, role=Role.OPERATOR)
        MembershipFactory(firm=globex.firm, user=both, role=Role.ADMIN)
    client = Client()
    client.force_login(both)
    assert {entry["firm"] for entry in cancels_in(Api(client=client))} == {"globex"}
