"""Pages say UTC and mean it, whatever the time zone of the project or the reader."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from jobs.models import Attempt, DeadLetterQueue, JobQueue, JobStep, Pause, ScheduleRun
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.jobs.admin.conftest import FirmRows
from tests.jobs.admin.pages import now, operation_url, submit
from tests.queue_kit import rows

pytestmark = pytest.mark.req("O-03")

MOMENT = datetime(2026, 11, 30, 21, 15, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def far_from_utc(settings: Settings) -> None:
    settings.TIME_ZONE = "Pacific/Auckland"


def times(client: Client, row: Any) -> set[str]:
    """Return the times of this day and the next that the row's page says are UTC."""
    text = client.get(operation_url(row, "change")).content.decode()
    return set(re.findall(r"(2026-1[12]-\S+ \S+) UTC", text))


def test_every_time_of_a_page_is_utc(operator: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        JobQueue.objects.update(
            created_at=MOMENT, started_at=MOMENT, completed_at=MOMENT, scheduled_at=MOMENT
        )
        Attempt.objects.update(started_at=MOMENT, ended_at=MOMENT)
        JobStep.objects.update(started_at=MOMENT, finished_at=MOMENT)
        ScheduleRun.objects.update(slot=MOMENT, enqueued_at=MOMENT, finished_at=MOMENT)
        JobQueueFactory(
            firm=acme.firm,
            waiting=True,
            lock_key=acme.lock.lock_key,
            created_at=MOMENT,
            scheduled_at=MOMENT,
        )
        for letter in (acme.dead_letter, DeadLetterQueueFactory(original_job__firm=acme.firm)):
            DeadLetterQueue.objects.filter(pk=letter.pk).update(
                moved_at=MOMENT, fingerprint="abc123"
            )
    for row in (acme.dead, acme.dead_letter, acme.lock, acme.schedule):
        assert "2026-11-30 21:15:00" in times(operator, row), row
        assert not any(time.startswith("2026-12-01 10:15") for time in times(operator, row)), row


@pytest.mark.req("O-08")
def test_the_time_of_a_form_is_utc(operator: Client, acme: FirmRows) -> None:
    submit(operator, acme.waiting, "edit", scheduled_at="2099-01-31T09:00")
    assert now(acme.waiting).scheduled_at == datetime(2099, 1, 31, 9, tzinfo=UTC)
    until = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=2)
    answers = {"category": "sync", "reason": "stop", "until": f"{until:%Y-%m-%dT%H:%M}"}
    operator.post(reverse("admin:jobs_pause_new"), answers)
    assert [pause.until for pause in rows(Pause) if pause.reason == "stop"] == [until]


def test_a_filter_by_a_period_of_another_zone_says_its_times_in_utc(
    operator: Client, acme: FirmRows
) -> None:
    period = {"settled": "2026-11-30T22:15+01:00..2026-11-30T23:15+01:00"}
    page = operator.get(reverse("admin:jobs_jobqueue_changelist"), period)
    assert "2026-11-30 21:15 to 2026-11-30 22:15 UTC" in page.content.decode()
