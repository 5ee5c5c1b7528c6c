"""How often one may ask: counted in the database, per key or user and per firm."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.db import connection

from jobs import operate
from tenants.api.throttles import CallerThrottle, FirmThrottle
from tenants.models import Role
from tests.api.conftest import Api, FirmRows, key_for, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]


@pytest.fixture(autouse=True)
def _forget() -> None:
    cache.clear()


def test_a_caller_is_told_when_to_come_back(
    viewer: Api, operator: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallerThrottle, "rate", "2/min", raising=False)
    assert [viewer.get("queues/").status_code for _ in range(2)] == [200, 200]
    answer = viewer.get("queues/")
    assert problem(answer, 429)["code"] == "throttled"
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert operator.get("queues/").status_code == 200


def test_a_firm_is_bounded_over_all_its_keys(
    acme: FirmRows, globex: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirmThrottle, "rate", "2/min", raising=False)
    for role in (Role.VIEWER, Role.ADMIN):
        assert Api(key_for(acme.firm, role)).get("queues/").status_code == 200
    problem(Api(key_for(acme.firm, Role.OPERATOR)).get("queues/"), 429)
    assert Api(key_for(globex.firm, Role.VIEWER)).get("queues/").status_code == 200


def test_platform_staff_is_bounded_as_a_user(staff: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallerThrottle, "rate", "1/min", raising=False)
    assert staff.get("queues/").status_code == 200
    problem(staff.get("queues/"), 429)


def test_a_refused_request_counts_too(
    viewer: Api, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallerThrottle, "rate", "1/min", raising=False)
    problem(viewer.post(f"jobs/{acme.waiting.pk}/cancel/"), 403)
    problem(viewer.get("queues/"), 429)


def test_what_broke_counts_too_though_all_it_did_is_rolled_back(
    staff: Api, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(operate, "discard", break_down)
    monkeypatch.setattr(CallerThrottle, "rate", "1/min", raising=False)
    path = f"dlq/{acme.dead_letter.pk}/discard/"
    problem(staff.post(path, {"reason": "x"}), 500)
    problem(staff.post(path, {"reason": "x"}), 429)


@pytest.mark.req("E-01")
def test_migrate_alone_makes_the_table_they_count_in() -> None:
    assert "tenants_cache" in connection.introspection.table_names()
