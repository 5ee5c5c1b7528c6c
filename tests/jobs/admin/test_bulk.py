"""One operation on many selected rows."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from jobs.admin import bulk
from jobs.models import DeadLetterQueue, JobQueue
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import MembershipFactory
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.jobs.admin.pages import audit_entries, messages_of, now

pytestmark = pytest.mark.req("O-03")

JOBS = reverse("admin:jobs_jobqueue_changelist")
LETTERS = reverse("admin:jobs_deadletterqueue_changelist")


def choose(client: Client, listing: str, act: str, rows: list[Any], **more: str) -> Any:
    """Select rows in a list and run an operation on them."""
    chosen = [str(row.pk) for row in rows]
    return client.post(listing, {"action": act, "_selected_action": chosen, "index": "0", **more})


def confirm(client: Client, page: Any, **answers: str) -> Any:
    """Send the page that asks."""
    sent = {name: page.context[name] for name in ("ids", "seen")}
    return client.post(page.context["action"], {**sent, **answers})


def dead_letters(firm: Firm, count: int) -> list[DeadLetterQueue]:
    """Return open dead letters with their jobs."""
    return [
        DeadLetterQueueFactory(
            original_job=JobQueueFactory(firm=firm, status="dlq", attempts=1), error_class="Boom"
        )
        for _ in range(count)
    ]


def test_selected_jobs_are_retried_after_a_page_that_lists_them(
    operator: Client, acme: FirmRows
) -> None:
    jobs = [JobQueueFactory(firm=acme.firm, status="failed") for _ in range(3)]
    page = choose(operator, JOBS, "retry", [*jobs, acme.waiting])
    assert page.status_code == 200
    assert (page.context["count"], len(page.context["lines"])) == (4, 4)
    assert "only a dead, failed or canceled one" in page.content.decode()
    assert {now(job).status for job in jobs} == {"failed"}
    answer = confirm(operator, page, reason="fixed")
    assert answer["Location"] == JOBS
    assert "3 of 4 retried." in messages_of(answer)
    assert "1 left alone: The job is pending" in messages_of(answer)
    assert {now(job).status for job in jobs} == {"pending"}
    assert [(entry.door, entry.reason) for entry in audit_entries(jobs[0].pk)] == [
        ("admin", "fixed")
    ]


@pytest.mark.req("D-02")
def test_dead_letters_are_discarded_together_with_a_reason(
    operator: Client, acme: FirmRows
) -> None:
    letters = dead_letters(acme.firm, 3)
    page = choose(operator, LETTERS, "discard", letters)
    missing = confirm(operator, page, reason="  ")
    assert missing.status_code == 400
    assert missing.context["form"].errors.keys() == {"reason"}
    assert missing.context["ids"] == page.context["ids"]
    assert {now(letter).resolution for letter in letters} == {""}
    assert "3 of 3 discarded." in messages_of(confirm(operator, page, reason="obsolete"))
    assert {now(letter).resolution for letter in letters} == {"discarded"}


def test_sending_the_page_twice_decides_nothing_twice(operator: Client, acme: FirmRows) -> None:
    letters = dead_letters(acme.firm, 2)
    page = choose(operator, LETTERS, "reprocess", letters)
    assert "2 of 2 reprocessed." in messages_of(confirm(operator, page, note=""))
    again = messages_of(confirm(operator, page, note=""))
    assert "0 of 2 reprocessed. 2 left alone: This was decided already" in again
    with all_firms("test"):
        series = JobQueue.objects.filter(dead_letters__in=letters).values_list("series", flat=True)
        assert set(series) == {2}


@pytest.mark.parametrize("seen", [None, "", "[]", "{", '{"a": 1}'], ids=str)
def test_what_changed_after_the_page_was_opened_is_left_alone(
    operator: Client, acme: FirmRows, seen: str | None
) -> None:
    stale, fresh = (JobQueueFactory(firm=acme.firm, status="failed") for _ in range(2))
    page = choose(operator, JOBS, "retry", [stale, fresh])
    with all_firms("test"):
        JobQueue.objects.filter(pk=stale.pk).update(series=2)
    # An answer without what the page showed rests on nothing at all.
    answers = {} if seen is None else {"seen": seen}
    answer = messages_of(confirm(operator, page, reason="", **answers))
    left = 1 if seen is None else 2
    assert f"{2 - left} of 2 retried. {left} left alone: changed after you opened" in answer
    assert (now(stale).series, now(stale).status) == (2, "failed")
    assert now(fresh).status == ("pending" if seen is None else "failed")


def test_one_refused_row_spoils_nothing_for_the_others(operator: Client, acme: FirmRows) -> None:
    JobQueueFactory(firm=acme.firm, idempotency_key="import:7", live_key="import:7")
    clash = JobQueueFactory(firm=acme.firm, status="failed", idempotency_key="import:7")
    fine = JobQueueFactory(firm=acme.firm, status="failed")
    page = choose(operator, JOBS, "retry", [clash, fine])
    answer = confirm(operator, page, reason="")
    assert "1 of 2 retried. 1 refused:" in messages_of(answer)
    assert "same idempotency key" in messages_of(answer)
    assert (now(clash).status, now(fine).status) == ("failed", "pending")


def test_all_that_match_the_filter_can_be_taken(operator: Client, acme: FirmRows) -> None:
    JobQueueFactory(firm=acme.firm, status="failed", category="sync")
    for _ in range(55):
        JobQueueFactory(firm=acme.firm, status="canceled", category="sync")
    listing = f"{JOBS}?category=sync&status=canceled"
    shown = operator.get(listing).context["cl"].result_list
    page = choose(operator, listing, "retry", [shown[0]], select_across="1")
    assert page.context["count"] == 55
    assert page.context["unlisted"] == 5


def test_there_is_a_limit_to_how_many_at_a_time(
    operator: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MAX_ROWS", 2)
    letters = dead_letters(acme.firm, 3)
    page = choose(operator, LETTERS, "discard", letters)
    assert page.context["count"] == 2
    assert "More than these match" in page.content.decode()
    ids = " ".join(str(letter.pk) for letter in letters)
    answer = operator.post(page.context["action"], {"ids": ids, "reason": "all"})
    assert "Select from 1 to 2 rows; nothing was done." in messages_of(answer)
    assert {now(letter).resolution for letter in letters} == {""}


@pytest.mark.parametrize("ids", ["", "   ", "not-an-id", "%00", "1 2 3"])
def test_no_rows_no_operation(operator: Client, acme: FirmRows, ids: str) -> None:
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    answer = operator.post(url, {"ids": ids, "reason": "because"})
    assert "nothing was done" in messages_of(answer)
    assert now(acme.dead_letter).resolution == ""


@pytest.mark.req("T-01")
def test_viewers_are_offered_nothing_and_refused(member: Client, acme: FirmRows) -> None:
    page = member.get(LETTERS)
    assert "_selected_action" not in page.content.decode()
    asked = choose(member, LETTERS, "discard", [acme.dead_letter])
    assert "action" not in (asked.context or {})
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    answers = {"ids": str(acme.dead_letter.pk), "reason": "because"}
    assert member.post(url, answers).status_code == 403
    assert now(acme.dead_letter).resolution == ""


@pytest.mark.req("T-03")
def test_rows_of_another_firm_are_not_found(
    operator: Client, acme: FirmRows, globex: FirmRows
) -> None:
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    answers = {"ids": f"{globex.dead_letter.pk} {uuid4()}", "reason": "because"}
    answer = operator.post(url, answers)
    assert answer.status_code == 404
    assert "globex" not in answer.content.decode().lower()
    page = choose(operator, LETTERS, "discard", [acme.dead_letter])
    both = f"{globex.dead_letter.pk} {acme.dead_letter.pk}"
    answer = messages_of(confirm(operator, page, reason="because", ids=both))
    assert "1 of 2 discarded. 1 no longer there." in answer
    assert now(globex.dead_letter).resolution == ""


@pytest.mark.req("T-01")
def test_each_rows_own_firm_decides_about_the_role(acme: FirmRows, globex: FirmRows) -> None:
    client = browser_of(acme.firm, Role.OPERATOR)
    user = get_user_model().objects.get(username="operator@acme.example")
    MembershipFactory(firm=globex.firm, user=user, role=Role.VIEWER)
    page = choose(client, LETTERS, "discard", [acme.dead_letter, globex.dead_letter])
    assert "Globex: noop" in page.content.decode()
    answer = messages_of(confirm(client, page, reason="because"))
    assert "1 of 2 discarded. 1 left alone: your role in their firm" in answer
    assert now(globex.dead_letter).resolution == ""


def test_the_address_alone_leads_back_to_the_list(operator: Client, acme: FirmRows) -> None:
    answer = operator.get(reverse("admin:jobs_deadletterqueue_bulk_discard"))
    assert (answer.status_code, answer["Location"]) == (302, LETTERS)


def test_a_post_without_the_forms_token_is_refused(acme: FirmRows) -> None:
    client = browser_of(acme.firm, Role.OPERATOR, strict=True)
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    answers = {"ids": str(acme.dead_letter.pk), "reason": "because"}
    assert client.post(url, answers).status_code == 403
    assert now(acme.dead_letter).resolution == ""
