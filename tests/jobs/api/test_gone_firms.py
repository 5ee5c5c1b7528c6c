"""Platform staff find, see and decide about what is left of a firm that is gone, at every door."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations.deletion import delete_firm
from jobs.testing import drain, run_job
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.jobs.api.conftest import Api, problem
from tests.queue_kit import row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("D-03", "J-11")]

LEFT = "left-over"


@pytest.fixture
def left(firm: Firm, other_firm: Firm) -> list[DeadLetterQueue]:
    """Return dead letters of jobs that were committed after their firm was deleted."""
    gone = other_firm.pk
    assert run_job(delete_firm(other_firm, "closed")).status == "completed"
    letters = [
        DeadLetterQueueFactory(
            original_job=JobQueueFactory(firm=firm, status="dlq"), fingerprint=LEFT
        )
        for _ in range(3)
    ]
    with all_firms("test"):
        JobQueue.objects.filter(dead_letters__in=letters).update(firm_id=gone)
        DeadLetterQueue.objects.filter(fingerprint=LEFT).update(firm_id=gone)
    return letters


def resolution(letter_id: UUID) -> str:
    with all_firms("test"):
        return str(DeadLetterQueue.objects.get(pk=letter_id).resolution)


def test_its_jobs_and_dead_letters_have_pages(left: list[Any], staff: Api, capsys: Any) -> None:
    letter = left[0]
    job_id, gone = letter.original_job_id, f"{row(letter.original_job_id).firm_id} (gone)"
    assert staff.get(f"dlq/{letter.pk}/").json()["firm"] is None
    assert staff.get(f"jobs/{job_id}/").json()["firm"] is None
    for page, pk in (("deadletterqueue", letter.pk), ("jobqueue", job_id)):
        shown = staff.client.get(reverse(f"admin:jobs_{page}_change", args=[pk]))
        assert (shown.status_code, gone in shown.content.decode()) == (200, True), page
    call_command("jobs", "show", str(job_id))
    assert gone in capsys.readouterr().out


def test_its_jobs_are_retried_and_say_why_they_wait(left: list[Any], staff: Api) -> None:
    job_id = left[0].original_job_id
    (reason,) = staff.post(f"jobs/{job_id}/retry/", {}).json()["why_waiting"]
    assert "no longer exists" in reason["detail"]
    assert staff.post(f"jobs/{job_id}/cancel/", {}).json()["status"] == "canceled"


def test_its_dead_letters_count_in_bulk_and_are_decided(left: list[Any], staff: Api) -> None:
    body = {"action": "discard", "reason": "x", "filter": {"fingerprint": LEFT}, "everywhere": True}
    totals = staff.post("dlq/bulk/", body).json()
    assert (totals["count"], totals["firms"]) == (3, [])
    assert staff.post("dlq/bulk/", {**body, "dry_run": False}).json()["count"] == 3
    drain()
    assert {resolution(letter.pk) for letter in left} == {"discarded"}


def test_the_list_starts_a_run_on_them(left: list[Any], staff: Api) -> None:
    address = reverse("admin:jobs_deadletterqueue_bulk_discard")
    sent = {"chosen": "all", "list": f"q={LEFT}", "reason": "obsolete"}
    assert "bulkrun" in staff.client.post(address, sent)["Location"]
    drain()
    assert {resolution(letter.pk) for letter in left} == {"discarded"}


@pytest.mark.req("D-02")
def test_its_dead_letters_are_not_escalated_as_nobody_can_be_asked(
    left: list[Any], staff: Api
) -> None:
    letter = left[0]
    why = "belongs to a firm that no longer exists, so nobody can be asked: discard it"
    answer = problem(staff.post(f"dlq/{letter.pk}/escalate/", {"reason": "look"}), 409)
    assert answer["detail"] == f"dead letter {letter.pk} {why}"
    shown = staff.client.get(reverse("admin:jobs_deadletterqueue_escalate", args=[letter.pk]))
    assert f"This {why}." in shown.content.decode()
    with pytest.raises(CommandError, match=why):
        call_command("dlq", "escalate", str(letter.pk), "--reason", "look")
    assert resolution(letter.pk) == ""
    assert staff.post(f"dlq/{letter.pk}/discard/", {"reason": "gone"}).status_code == 200
