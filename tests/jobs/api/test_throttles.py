"""How often a caller may ask: counted in the database, per API key or user, and per firm."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client, RequestFactory

from jobs.operations import dead_letters
from tenants import throttles
from tenants.admin import login
from tenants.models import RequestCount, Role
from tenants.throttles import CallerThrottle, FirmThrottle, address_of, count_request
from tests.factories.tenants import UserFactory
from tests.jobs.api.conftest import Api, FirmRows, at, key_for, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]


@pytest.fixture(autouse=True)
def _in_one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, 30)


def test_a_caller_is_told_when_to_come_back(
    viewer: Api, operator: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallerThrottle, "per_minute", 2)
    assert [viewer.get("queues/").status_code for _ in range(2)] == [200, 200]
    answer = viewer.get("queues/")
    assert problem(answer, 429)["code"] == "throttled"
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert operator.get("queues/").status_code == 200


def test_a_firm_is_bounded_over_all_its_keys(
    acme: FirmRows, globex: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FirmThrottle, "per_minute", 2)
    for role in (Role.VIEWER, Role.ADMIN):
        assert Api(key_for(acme.firm, role)).get("queues/").status_code == 200
    problem(Api(key_for(acme.firm, Role.OPERATOR)).get("queues/"), 429)
    assert Api(key_for(globex.firm, Role.VIEWER)).get("queues/").status_code == 200


def test_platform_staff_is_bounded_as_a_user(staff: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallerThrottle, "per_minute", 1)
    assert staff.get("queues/").status_code == 200
    problem(staff.get("queues/"), 429)


def test_a_refused_request_counts_too(
    viewer: Api, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CallerThrottle, "per_minute", 1)
    problem(viewer.post(f"jobs/{acme.waiting.pk}/cancel/"), 403)
    problem(viewer.get("queues/"), 429)


def test_what_broke_counts_too_though_all_it_did_is_rolled_back(
    staff: Api, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*args: object, **kwargs: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(dead_letters, "audit", break_down)
    monkeypatch.setattr(CallerThrottle, "per_minute", 1)
    path = f"dlq/{acme.dead_letter.pk}/discard/"
    problem(staff.post(path, {"reason": "x"}), 500)
    problem(staff.post(path, {"reason": "x"}), 429)


def test_a_new_minute_counts_anew(viewer: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallerThrottle, "per_minute", 1)
    answers = []
    # A request of the old minute comes after the turn of the minute; later the clock is put back.
    for second in (0, 59, 60, 59, 61, 120, 120 - 3600):
        at(monkeypatch, second)
        answers.append(viewer.get("queues/").status_code)
    assert answers == [200, 429, 200, 429, 429, 200, 200]


def test_callers_who_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    for minute, kept in ((0, {"0"}), (60, {"0", "60"}), (61, {"60", "61"})):
        at(monkeypatch, minute * 60)
        count_request(str(minute))
        assert {count.caller for count in RequestCount.objects.all()} == kept


def test_an_address_may_be_refused_for_its_key_only_so_often(
    viewer: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttles, "REFUSALS_PER_MINUTE", 2)
    stranger = Api("mrk_0123456789ab_" + "x" * 43)
    problem(stranger.get("queues/"), 401)
    problem(Api().get("queues/"), 401)
    for caller in (stranger, Api()):
        refusal = caller.get("queues/")
        assert problem(refusal, 429)["code"] == "throttled"
        assert refusal["Retry-After"] == "30"
    assert viewer.get("queues/").status_code == 200
    problem(Api(client=Client(REMOTE_ADDR="192.0.2.7")).get("queues/"), 401)


def sign_in(password: str, address: str = "192.0.2.1") -> Any:
    answers = {"username": "ann", "password": password}
    return Client(REMOTE_ADDR=address).post("/admin/login/?next=/admin/", answers)


def test_an_address_may_try_to_sign_in_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    UserFactory(username="ann", password="right", platform_staff=True)
    monkeypatch.setattr(login, "TRIES_PER_MINUTE", 2)
    # Successful sign-ins do not count.
    assert [sign_in("right").status_code for _ in range(3)] == [302] * 3
    assert [sign_in("wrong").status_code for _ in range(2)] == [200] * 2
    refusal = sign_in("right")
    assert (refusal.status_code, refusal["Retry-After"]) == (429, "30")
    assert "Try again in 30 seconds." in refusal.content.decode()
    assert "sessionid" not in refusal.cookies
    assert sign_in("right", "192.0.2.2").status_code == 302
    assert Client(REMOTE_ADDR="192.0.2.1").get("/admin/login/").status_code == 200


def test_tries_count_for_somebody_who_is_signed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    UserFactory(username="ann", password="right", platform_staff=True)
    UserFactory(username="eve", password="known", is_staff=True)
    monkeypatch.setattr(login, "TRIES_PER_MINUTE", 2)
    eve = Client(REMOTE_ADDR="192.0.2.1")
    assert eve.login(username="eve", password="known")
    for password, status in (("1", 200), ("2", 200), ("right", 429)):
        answers = {"username": "ann", "password": password}
        assert eve.post("/admin/login/?next=/admin/", answers).status_code == status


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "192.0.2.9", "198.51.100.1"),
        (1, "203.0.113.5, 192.0.2.9", "192.0.2.9"),
        (2, "203.0.113.5, 192.0.2.9, 10.0.0.1", "192.0.2.9"),
        (2, "192.0.2.9", "198.51.100.1"),
        (1, "", "198.51.100.1"),
        (1, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (1, "::ffff:192.0.2.9", "192.0.2.9"),
        (1, "x" * 500, "x" * 45),
    ],
)
def test_an_address_is_what_the_trusted_proxies_saw(
    settings: Any, proxies: int, forwarded: str, address: str
) -> None:
    settings.TRUSTED_PROXIES = proxies
    headers = {"X-Forwarded-For": forwarded}
    request = RequestFactory().get("/", REMOTE_ADDR="198.51.100.1", headers=headers)
    assert address_of(request) == address
