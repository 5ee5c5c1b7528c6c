"""PATCH changes a waiting job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.factories.jobs import JobQueueFactory
from tests.jobs.api.conftest import Api, FirmRows, audit_log, fields, problem
from tests.queue_kit import row

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "O-08")]


@pytest.mark.req("T-05")
def test_priority_and_time_of_a_waiting_job_are_changed(operator: Api, acme: FirmRows) -> None:
    body = {"priority": 1, "scheduled_at": "2099-01-31T09:00:00Z", "reason": "after the holidays"}
    answer = operator.patch(f"jobs/{acme.waiting.pk}/", body)
    assert answer.status_code == 200
    shown = answer.json()
    assert (shown["status"], shown["priority"], shown["scheduled_at"]) == (
        "pending",
        1,
        "2099-01-31T09:00:00.000Z",
    )
    (entry,) = audit_log()
    assert (entry.act, entry.door, entry.actor_name, entry.reason) == (
        "job.edit",
        "api",
        "operator@acme.example",
        "after the holidays",
    )


def test_a_job_that_is_put_off_can_run_now(operator: Api, acme: FirmRows) -> None:
    job = JobQueueFactory(firm=acme.firm, scheduled_at=timezone.now() + timedelta(days=2))
    shown = operator.patch(f"jobs/{job.pk}/", {"run_now": True}).json()
    due = datetime.fromisoformat(shown["scheduled_at"])
    assert due <= datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.req("J-03")
@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({}, {"": "required"}),
        ({"priority": 9}, {"priority": "max_value"}),
        ({"colour": "red"}, {"colour": "unknown_field"}),
        ({"scheduled_at": "soon"}, {"scheduled_at": "invalid"}),
        ({"scheduled_at": "2099-01-01T00:00:00Z", "run_now": True}, {"run_now": "conflict"}),
        ({"payload": {"extra": 1}}, {"extra": "unknown_field"}),
        ({"payload": {"correlation_id": "x"}}, {"correlation_id": "not_possible"}),
    ],
)
def test_a_refused_edit_names_the_field(
    body: dict[str, Any], faults: dict[str, str], operator: Api, acme: FirmRows
) -> None:
    before = row(acme.waiting.pk).updated_at
    assert fields(operator.patch(f"jobs/{acme.waiting.pk}/", body)) == faults
    assert row(acme.waiting.pk).updated_at == before
    assert audit_log() == []


@pytest.mark.parametrize("status", ["claimed", "processing", "completed", "dlq"])
def test_a_job_that_a_worker_has_or_had_is_409(status: str, operator: Api, acme: FirmRows) -> None:
    job = JobQueueFactory(firm=acme.firm, status=status)
    found = problem(operator.patch(f"jobs/{job.pk}/", {"priority": 0}), 409)
    assert found["code"] == "wrong_state"
    assert row(job.pk).priority == 2


@pytest.mark.req("T-03")
def test_another_firms_job_is_404(operator: Api, acme: FirmRows, globex: FirmRows) -> None:
    problem(operator.patch(f"jobs/{globex.waiting.pk}/", {"priority": 0}), 404)
    assert row(globex.waiting.pk).priority == 2
