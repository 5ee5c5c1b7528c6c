"""The timeline on a job's page has the order in which things happened."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import Attempt, DeadLetterQueue, JobQueue
from jobs.operations.dead_letters import discard
from jobs.operations.jobs import retry
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.jobs.admin.conftest import FirmRows
from tests.queue_kit import later

pytestmark = pytest.mark.req("O-03", "D-02")

MINUTE = timedelta(minutes=1)


def shown(client: Client, job: JobQueue) -> Any:
    response = client.get(reverse("admin:jobs_jobqueue_change", args=[job.pk]))
    assert response.status_code == 200
    return response


def titles(response: Any) -> list[str]:
    return [moment.title for moment in response.context["timeline"]]


def died(rows: FirmRows, at: datetime) -> None:
    """Let the firm's dead job end at this time; its attempt is recorded a moment later."""
    with all_firms("test"):
        job = JobQueue.objects.filter(pk=rows.dead.pk)
        job.update(created_at=at - MINUTE, started_at=at - timedelta(seconds=2), completed_at=at)
        moment = timedelta(milliseconds=1)
        Attempt.objects.filter(job_id=rows.dead.pk).update(ended_at=at + moment)
        DeadLetterQueue.objects.filter(pk=rows.dead_letter.pk).update(moved_at=at + 2 * moment)


def test_a_discarded_jobs_end_is_the_discard(member: Client, acme: FirmRows) -> None:
    death = timezone.now() - 11 * MINUTE
    died(acme, death)
    with later(0), all_firms("test"):
        discard(acme.dead_letter.pk, "ordered <by> mistake")
        response = shown(member, acme.dead)
    assert response.context["headline"] == "Discarded just now."
    assert [one.partition(" after")[0] for one in titles(response)] == [
        "Enqueued",
        "Attempt 1 dead-lettered",
        "Dead-lettered",
        "Discarded, the job is failed",
    ]
    *_, moved, discarded = response.context["timeline"]
    assert moved.at - death < MINUTE < discarded.at - moved.at


def test_what_a_person_wrote_does_not_look_like_an_error(member: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        discard(acme.dead_letter.pk, "ordered <by> mistake")
    text = shown(member, acme.dead).content.decode()
    assert '<p class="queue-timeline-note">ordered &lt;by&gt; mistake</p>' in text
    assert 'queue-error">ordered' not in text
    assert '<p class="queue-code queue-error">ValueError: secret of acme</p>' in text


def test_a_job_that_fails_again_after_a_discard_ends_with_its_own_failure(
    member: Client, acme: FirmRows
) -> None:
    now = timezone.now()
    died(acme, now - 11 * MINUTE)
    with all_firms("test"):
        discard(acme.dead_letter.pk, "ordered by mistake")
        letter = DeadLetterQueue.objects.filter(pk=acme.dead_letter.pk)
        letter.update(reviewed_at=now - 5 * MINUTE)
        retry(acme.dead.pk)
        JobQueue.objects.filter(pk=acme.dead.pk).update(
            status="failed", started_at=now - MINUTE, completed_at=now - MINUTE
        )
    response = shown(member, acme.dead)
    assert response.context["headline"].startswith("Failed 1 min ago")
    assert titles(response)[-2:] == ["Discarded", "Failed"]


def test_a_due_job_says_for_how_long(member: Client, acme: FirmRows) -> None:
    job = JobQueueFactory(firm=acme.firm, scheduled_at=timezone.now() - 3 * MINUTE)
    assert shown(member, job).context["headline"] == "Due for 3 min."
