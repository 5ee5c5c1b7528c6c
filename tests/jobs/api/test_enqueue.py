"""POST to the list of jobs enqueues a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from pydantic import AfterValidator

from jobs import registry
from jobs.engine.redaction import REDACTED_VALUE
from jobs.models import JobQueue
from jobs.registry import JobPayload, JobType
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, problem
from tests.queue_kit import row, rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]


@pytest.mark.req("J-03", "T-05")
def test_a_job_is_enqueued_and_written_down(developer: Api, acme: FirmRows) -> None:
    body = {
        "job_type": "noop",
        "at": "2099-01-31T09:00:00Z",
        "priority": 1,
        "max_attempts": 7,
        "lock_key": "import",
        "correlation_id": "order-17",
        "reason": "asked for by the customer",
    }
    answer = developer.post("jobs/", body)
    assert answer.status_code == 201
    shown = answer.json()
    assert {name: shown[name] for name in ("job_type", "priority", "max_attempts", "lock_key")} == {
        "job_type": "noop",
        "priority": 1,
        "max_attempts": 7,
        "lock_key": "import",
    }
    assert (shown["firm"], shown["status"]) == ("acme", "pending")
    assert shown["scheduled_at"] == "2099-01-31T09:00:00.000Z"
    assert row(shown["job_id"]).payload == {
        "tenant_id": acme.firm.pk,
        "version": "1.0",
        "correlation_id": "order-17",
    }
    (entry,) = audit_log()
    assert (entry.act, entry.target_id, entry.door, entry.reason) == (
        "job.enqueue",
        shown["job_id"],
        "api",
        "asked for by the customer",
    )


@pytest.mark.req("U-05")
def test_an_export_of_the_firm_is_for_those_who_may_download_it(developer: Api, admin: Api) -> None:
    export = {"job_type": "firm_export"}
    for path, body in (
        ("jobs/", export),
        ("jobs/chain/", {"jobs": [{"job_type": "noop"}, export]}),
    ):
        assert developer.post(path, body).status_code == 403
        assert admin.post(path, body).status_code == 201


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_a_time_without_a_zone_is_utc_whatever_the_projects_own(developer: Api, zone: str) -> None:
    with timezone.override(ZoneInfo(zone)):
        bare, zoned = (
            developer.post("jobs/", {"job_type": "noop", "at": f"2099-01-31T09:00:00{end}"}).json()
            for end in ("", "+05:45")
        )
    assert bare["scheduled_at"] == "2099-01-31T09:00:00.000Z"
    assert zoned["scheduled_at"] == "2099-01-31T03:15:00.000Z"


@pytest.mark.req("J-20")
def test_a_key_of_ones_own_for_a_lock_over_all_firms_is_refused(
    developer: Api, job_types: dict[str, JobType]
) -> None:
    job_types["noop"] = replace(registry.get("noop"), lock_counted_by="all_firms")
    refused = developer.post("jobs/", {"job_type": "noop", "lock_key": "mine"})
    assert fields(refused) == {"lock_key": "not_possible"}
    chain = {"jobs": [{"job_type": "noop"}, {"job_type": "noop", "lock_key": "mine"}]}
    assert fields(developer.post("jobs/chain/", chain)) == {"jobs.1.lock_key": "not_possible"}


@pytest.mark.req("J-03")
@pytest.mark.parametrize("option", ["lock_key", "limit_key", "idempotency_key", "limit_units"])
def test_a_function_of_the_type_that_raises_refuses_the_job(
    developer: Api, job_types: dict[str, JobType], option: str
) -> None:
    def fail(payload: object) -> str:
        raise KeyError("Ada")

    options: dict[str, Any] = {option: fail}
    job_types["noop"] = replace(registry.get("noop"), **options)
    refused = developer.post("jobs/", {"job_type": "noop"})
    assert fields(refused) == {option: "function_failed"}
    assert "Ada" not in refused.content.decode()


@pytest.mark.req("J-03")
def test_a_validator_of_the_type_that_raises_refuses_the_job(
    developer: Api, job_types: dict[str, JobType]
) -> None:
    class Lookup(JobPayload):
        name: Annotated[str, AfterValidator({}.__getitem__)]

    job_types["noop"] = replace(registry.get("noop"), payload_model=Lookup)
    refused = developer.post("jobs/", {"job_type": "noop", "payload": {"name": "Ada"}})
    assert fields(refused) == {"name": "function_failed"}
    assert "Ada" not in refused.content.decode()


@pytest.mark.req("J-07")
def test_a_live_job_with_the_key_is_answered_in_its_place(developer: Api) -> None:
    body = {"job_type": "noop", "idempotency_key": "order-17"}
    first = developer.post("jobs/", body)
    again = developer.post("jobs/", {**body, "priority": 0})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["job_id"] == first.json()["job_id"]
    assert again.json()["priority"] == 2
    said = [(one.json()["created"], one.json()["replaced"]) for one in (first, again)]
    assert said == [(True, False), (False, False)]
    assert len(audit_log()) == 1


@pytest.mark.req("J-03")
@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, {"job_type": "required"}),
        ({"job_type": "nope"}, {"job_type": "unknown_type"}),
        ({"job_type": "nope", "lock_key": "mine"}, {"job_type": "unknown_type"}),
        ({"job_type": "noop", "payload": {"extra": 1}}, {"extra": "unknown_field"}),
        ({"job_type": "noop", "payload": {"tenant_id": 0}}, {"tenant_id": "foreign_tenant"}),
        ({"job_type": "noop", "payload": {"version": REDACTED_VALUE}}, {"version": "masked"}),
        ({"job_type": "noop", "priority": 4}, {"priority": "max_value"}),
        ({"job_type": "noop", "delay": -1}, {"delay": "min_value"}),
        (
            {"job_type": "noop", "delay": 1, "at": "2099-01-01T00:00:00Z"},
            {"delay": "conflict"},
        ),
        ({"job_type": "noop", "colour": "red"}, {"colour": "unknown_field"}),
    ],
)
def test_a_refused_job_names_the_field(
    body: dict[str, Any], faults: dict[str, str], developer: Api, acme: FirmRows
) -> None:
    before = len(rows(JobQueue))
    assert fields(developer.post("jobs/", body)) == faults
    assert len(rows(JobQueue)) == before
    assert audit_log() == []


@pytest.mark.req("T-03")
def test_the_firm_is_one_of_the_callers(
    developer: Api, staff: Api, acme: FirmRows, globex: FirmRows
) -> None:
    problem(developer.post("jobs/", {"job_type": "noop", "firm": "globex"}), 404)
    assert fields(staff.post("jobs/", {"job_type": "noop"})) == {"firm": "required"}
    named = staff.post("jobs/", {"job_type": "noop", "firm": "globex"})
    assert (named.status_code, named.json()["firm"]) == (201, "globex")


@pytest.mark.req("J-07")
def test_a_key_may_stand_for_a_period_and_its_job_be_replaced(developer: Api) -> None:
    body = {"job_type": "noop", "idempotency_key": "order-17", "unique_for": 60}
    first = developer.post("jobs/", body)
    assert (
        developer.post(f"jobs/{first.json()['job_id']}/cancel/", {}).json()["status"] == "canceled"
    )
    assert developer.post("jobs/", body).json()["job_id"] == first.json()["job_id"]

    body = {"job_type": "noop", "idempotency_key": "order-18", "on_conflict": "debounce"}
    assert fields(developer.post("jobs/", body)) == {"delay": "required"}
    waiting = developer.post("jobs/", {**body, "delay": 60})
    again = developer.post("jobs/", {**body, "delay": 900, "max_wait": 600, "priority": 0})
    assert (waiting.status_code, again.status_code) == (201, 200)
    assert (again.json()["job_id"], again.json()["priority"]) == (waiting.json()["job_id"], 0)
    assert again.json()["scheduled_at"] > waiting.json()["scheduled_at"]
    assert (again.json()["created"], again.json()["replaced"]) == (False, True)
    enqueued = [entry.after.get("replaced") for entry in audit_log() if entry.act == "job.enqueue"]
    assert sorted(map(str, enqueued)) == ["None", "None", "True"]
