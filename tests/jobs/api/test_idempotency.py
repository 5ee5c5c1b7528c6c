"""Requests with an Idempotency-Key are done once, and repeated ones get the same answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from jobs.engine.prune import prune
from jobs.models import IdempotentRequest, JobQueue
from tenants.api import keys
from tenants.audit import SERVICE
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import MembershipFactory, UserFactory
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, key_for, problem
from tests.queue_kit import row, rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]

NOOP = {"job_type": "noop"}


def keyed(key: str = "k-1") -> dict[str, Any]:
    return {"Idempotency-Key": key}


def test_the_same_request_is_done_once_and_answered_alike(developer: Api) -> None:
    first = developer.post("jobs/", NOOP, **keyed())
    again = developer.post("jobs/", NOOP, **keyed())
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert "Idempotent-Replayed" not in first
    assert again["Idempotent-Replayed"] == "true"
    assert len(audit_log()) == 1
    assert developer.post("jobs/", NOOP, **keyed("k-2")).json()["job_id"] != first.json()["job_id"]


def test_the_answer_is_that_of_the_time_although_the_job_went_on(
    operator: Api, acme: FirmRows
) -> None:
    path = f"jobs/{acme.dead.pk}/retry/"
    first = operator.post(path, {"reason": "fixed"}, **keyed())
    with all_firms("test"):
        JobQueue.objects.filter(pk=acme.dead.pk).update(status="processing")
    again = operator.post(path, {"reason": "fixed"}, **keyed())
    assert again.status_code == 200
    assert again.json() == first.json()
    problem(operator.post(path, {"reason": "fixed"}), 409)


def test_another_request_with_the_key_is_refused(operator: Api, acme: FirmRows) -> None:
    assert operator.patch(f"jobs/{acme.waiting.pk}/", {"priority": 0}, **keyed()).status_code == 200
    for path, body in (
        (f"jobs/{acme.waiting.pk}/", {"priority": 1}),
        (f"jobs/{acme.dead.pk}/", {"priority": 0}),
    ):
        found = problem(operator.patch(path, body, **keyed()), 409)
        assert found["code"] == "idempotency_key_reused"
    assert row(acme.waiting.pk).priority == 0


def test_what_was_refused_can_be_sent_again(operator: Api, acme: FirmRows) -> None:
    job = JobQueueFactory(firm=acme.firm, status="completed")
    path = f"jobs/{job.pk}/retry/"
    problem(operator.post(path, {}, **keyed()), 409)
    with all_firms("test"):
        JobQueue.objects.filter(pk=job.pk).update(status="failed")
    assert operator.post(path, {}, **keyed()).status_code == 200
    assert row(job.pk).status == "pending"


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "naïve"])
def test_a_key_that_is_not_valid_is_named(key: str, developer: Api) -> None:
    assert fields(developer.post("jobs/", NOOP, **keyed(key))) == {"Idempotency-Key": "invalid"}
    assert rows(IdempotentRequest) == []


@pytest.mark.req("T-03")
def test_a_key_is_its_callers_own(
    developer: Api, staff: Api, acme: FirmRows, globex: FirmRows
) -> None:
    both = UserFactory(username="both", is_staff=True)
    with all_firms("test"):
        for owner in (acme.firm, globex.firm):
            MembershipFactory(firm=owner, user=both, role=Role.DEVELOPER)
    client = Client()
    client.force_login(both)
    answers = [
        api.post("jobs/", {**NOOP, "firm": "acme"}, **keyed())
        for api in (developer, staff, Api(client=client))
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert len({answer.json()["job_id"] for answer in answers}) == 3
    assert {kept.firm.slug for kept in rows(IdempotentRequest)} == {"acme", "system"}


def test_who_was_demoted_is_not_answered_again(acme: FirmRows) -> None:
    person = UserFactory(username="was-developer", is_staff=True)
    with all_firms("test"):
        member = MembershipFactory(firm=acme.firm, user=person, role=Role.DEVELOPER)
    client = Client()
    client.force_login(person)
    first = Api(client=client).post("jobs/", NOOP, **keyed())
    assert first.status_code == 201
    with all_firms("test"):
        type(member).objects.filter(pk=member.pk).update(role=Role.VIEWER)
    again = problem(Api(client=client).post("jobs/", NOOP, **keyed()), 409)
    assert again["code"] == "idempotency_key_reused"
    assert "other roles" in again["detail"]
    assert first.json()["job_id"] not in str(again)


def test_a_key_of_lower_role_gets_no_answer_of_a_higher_one(acme: FirmRows) -> None:
    person = UserFactory(username="two-keys", is_staff=True)
    with all_firms("test"):
        MembershipFactory(firm=acme.firm, user=person, role=Role.DEVELOPER)
    high, low = (
        keys.issue(person, acme.firm, role, lifetime=None, by=SERVICE)[0]
        for role in (Role.DEVELOPER, Role.VIEWER)
    )
    assert Api(high).post("jobs/", NOOP, **keyed()).status_code == 201
    problem(Api(low).post("jobs/", NOOP, **keyed()), 409)
    problem(Api(low).post("jobs/", NOOP), 403)


def test_a_key_holds_although_its_user_joined_another_firm(
    acme: FirmRows, globex: FirmRows
) -> None:
    person = UserFactory(username="mover", is_staff=True)
    first, second = sorted((acme.firm, globex.firm), key=lambda firm: firm.pk)
    with all_firms("test"):
        MembershipFactory(firm=second, user=person, role=Role.DEVELOPER)
    client = Client()
    client.force_login(person)
    asked = {**NOOP, "firm": second.slug}
    assert Api(client=client).post("jobs/", asked, **keyed()).status_code == 201
    with all_firms("test"):
        MembershipFactory(firm=first, user=person, role=Role.VIEWER)
    problem(Api(client=client).post("jobs/", asked, **keyed()), 409)
    assert len(rows(IdempotentRequest)) == 1


def test_keys_are_forgotten_after_a_day(developer: Api, acme: FirmRows) -> None:
    developer.post("jobs/", NOOP, **keyed("old"))
    developer.post("jobs/", NOOP, **keyed("new"))
    with all_firms("test"):
        old = IdempotentRequest.objects.filter(key="old")
        old.update(created_at=timezone.now() - timedelta(days=1, minutes=1))
        prune(acme.firm)
    assert [kept.key for kept in rows(IdempotentRequest)] == ["new"]


@pytest.mark.django_db(transaction=True)
def test_of_requests_at_once_one_is_done_and_all_are_answered_alike(firm: Firm) -> None:
    key = key_for(firm, Role.DEVELOPER)

    def ask(_: int) -> Any:
        try:
            return Api(key).post("jobs/", NOOP, **keyed()).json()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as callers:
        answers = list(callers.map(ask, range(8)))
    assert len(rows(JobQueue)) == 1
    assert all(answer == answers[0] for answer in answers)
