"""`jobs/chain/`: enqueuing a chain over REST."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.engine.redaction import REDACTED_VALUE
from jobs.models import FanIn, JobQueue
from jobs.testing import drain
from tenants.scope import all_firms
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, problem
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-02", "O-01")]

NOOP: dict[str, Any] = {"job_type": "noop"}
PATH = "jobs/chain/"


def enqueued() -> list[str]:
    """Return the statuses of the jobs of chains, oldest first."""
    with all_firms("test"):
        found = JobQueue.objects.filter(correlation_id="chain").order_by("pk")
        return list(found.values_list("status", flat=True))


def test_each_follows_the_one_before_it(developer: Api, acme: FirmRows) -> None:
    first = {**NOOP, "priority": 0, "correlation_id": "chain"}
    answer = developer.post(PATH, {"jobs": [first, NOOP, NOOP], "reason": "asked for"})
    assert answer.status_code == 201
    shown = answer.json()
    assert (shown["firm"], shown["priority"], shown["created"]) == ("acme", 0, True)
    assert [one["job_types"] for one in shown["then"]] == [["noop", "noop"]]
    assert enqueued() == ["pending"]
    (entry,) = audit_log()
    assert (entry.act, entry.target_id, entry.reason) == (
        "job.enqueue",
        shown["job_id"],
        "asked for",
    )
    assert entry.after["chain"] == ["noop"] * 3
    drain()
    assert enqueued() == ["completed"] * 3


@pytest.mark.req("J-07")
def test_a_live_job_with_the_first_ones_key_is_answered_in_its_place(developer: Api) -> None:
    body = {"jobs": [{**NOOP, "idempotency_key": "k"}, NOOP]}
    first, again = developer.post(PATH, body), developer.post(PATH, body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert (again.json()["job_id"], again.json()["created"]) == (first.json()["job_id"], False)
    assert (len(rows(FanIn)), len(audit_log())) == (1, 1)


def test_the_same_request_is_done_once(developer: Api) -> None:
    body = {"jobs": [NOOP, NOOP]}
    first = developer.post(PATH, body, **{"Idempotency-Key": "k-1"})
    again = developer.post(PATH, body, **{"Idempotency-Key": "k-1"})
    assert again.json() == first.json()
    assert again["Idempotent-Replayed"] == "true"
    assert len(rows(FanIn)) == 1


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, {"jobs": "required"}),
        ({"jobs": []}, {"jobs": "min_length"}),
        ({"jobs": [NOOP] * 101}, {"jobs": "max_length"}),
        ({"jobs": [NOOP], "colour": "red"}, {"colour": "unknown_field"}),
        ({"jobs": [NOOP, {**NOOP, "colour": "red"}]}, {"jobs.1.colour": "unknown_field"}),
        ({"jobs": [NOOP, {}]}, {"jobs.1.job_type": "required"}),
        ({"jobs": [NOOP, {"job_type": "nope"}]}, {"jobs.1.job_type": "unknown_type"}),
        ({"jobs": [{**NOOP, "firm": "acme"}]}, {"jobs.0.firm": "unknown_field"}),
        ({"jobs": [NOOP, {**NOOP, "payload": {"x": 1}}]}, {"jobs.1.x": "unknown_field"}),
        (
            {"jobs": [NOOP, {**NOOP, "payload": {"version": REDACTED_VALUE}}]},
            {"jobs.1.version": "masked"},
        ),
        ({"jobs": [NOOP, {**NOOP, "at": "2099-01-01T00:00:00Z"}]}, {"jobs.1.at": "conflict"}),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_stored(
    developer: Api, body: dict[str, Any], faults: dict[str, str]
) -> None:
    before = len(rows(JobQueue))
    assert fields(developer.post(PATH, body)) == faults
    assert (len(rows(JobQueue)), rows(FanIn), audit_log()) == (before, [], [])


@pytest.mark.req("T-01")
def test_it_is_for_ones_own_firm(developer: Api, globex: FirmRows) -> None:
    problem(developer.post(PATH, {"jobs": [NOOP], "firm": "globex"}), 404)
    answer = developer.post(PATH, {"jobs": [{**NOOP, "payload": {"tenant_id": globex.firm.pk}}]})
    assert fields(answer) == {"jobs.0.tenant_id": "foreign_tenant"}
