"""Bulk operations on lists: a page counts the rows, and then a job does the bulk run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.admin import bulk
from jobs.models import BulkRun, DeadLetterQueue, JobQueue
from jobs.operations.bulk_step import do_step
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, WorkerFactory
from tests.factories.tenants import FirmFactory, MembershipFactory
from tests.jobs.admin.conftest import FirmRows, browser_of, new_member
from tests.jobs.admin.pages import audit_entries, messages_of, now
from tests.queue_kit import row, rows

pytestmark = pytest.mark.req("O-03", "D-03")

JOBS = reverse("admin:jobs_jobqueue_changelist")
LETTERS = reverse("admin:jobs_deadletterqueue_changelist")
BOARD = reverse("admin:jobs_deadletterqueue_groups")


def choose(client: Client, listing: str, act: str, rows: list[Any], **more: str) -> Any:
    """Select rows in a list and run an operation on them."""
    chosen = [str(row.pk) for row in rows]
    sent = {"action": act, "_selected_action": chosen, "index": "0", **more}
    return client.post(listing, sent, follow=True)


def confirm(client: Client, page: Any, **answers: str) -> Any:
    """Send the confirmation page."""
    sent = {name: page.context[name] for name in ("ids", "chosen", "list", "seen_at")}
    return client.post(page.context["action"], {**sent, **answers})


def started() -> list[BulkRun]:
    """Return the runs that were started by the test, oldest first."""
    return [run for run in rows(BulkRun) if run.correlation_id != "c-1"]


def finish(expected: int = 1) -> list[BulkRun]:
    """Do the bulk runs of the test as their jobs would; return them."""
    runs = started()
    assert len(runs) == expected
    for run in runs:
        with all_firms("test"):
            owner = Firm.objects.get(pk=run.firm_id)
        while not do_step(run.pk, owner, run.job_id, row(run.job_id).lease_token).is_over:
            pass
    return started()


def dead_letters(firm: Firm, count: int, error: str = "Boom") -> list[DeadLetterQueue]:
    """Return open dead letters with their jobs."""
    return [
        DeadLetterQueueFactory(
            original_job=JobQueueFactory(firm=firm, status="dlq", attempts=1),
            error_class=error,
            fingerprint=error,
        )
        for _ in range(count)
    ]


def fact(page: Any, label: str) -> Any:
    """Return the fact with this label on the page."""
    return {one.label: one.value for one in page.context["facts"]}[label]


def test_a_run_says_what_it_was_started_for(operator: Client, acme: FirmRows) -> None:
    letters = dead_letters(acme.firm, 3, "Boom")
    dead_letters(acme.firm, 2, "Crash")
    choose_all = {"chosen": "all", "list": "q=Boom&resolution=open&p=1", "reason": ""}
    ask = reverse("admin:jobs_deadletterqueue_bulk_discard")
    assert operator.post(ask, {**choose_all, "reason": "known"}).status_code == 302
    (run,) = finish()
    assert (run.total, run.selection) == (3, {"filter": {"q": "Boom", "resolution": "open"}})
    assert {now(one).resolution for one in letters} == {"discarded"}
    for address in (
        reverse("admin:jobs_bulkrun_change", args=[run.pk]),
        reverse("admin:jobs_bulkrun_changelist"),
    ):
        assert "search: Boom, resolution: open" in operator.get(address).content.decode()


def test_selected_jobs_are_retried_after_a_page_that_counts_them(
    operator: Client, acme: FirmRows
) -> None:
    jobs = [JobQueueFactory(firm=acme.firm, status="failed") for _ in range(3)]
    page = choose(operator, JOBS, "retry", [*jobs, acme.waiting])
    assert page.status_code == 200
    assert (page.context["totals"].count, page.context["left_alone"]) == (3, 1)
    assert "1 of the selected rows will not be changed" in page.content.decode()
    assert {now(job).status for job in jobs} == {"failed"}
    answer = confirm(operator, page, reason="fixed")
    (run,) = finish()
    assert answer["Location"].startswith(reverse("admin:jobs_bulkrun_change", args=[run.pk]))
    assert "Started for 3 jobs." in messages_of(answer)
    assert (run.state, run.done) == ("completed", 3)
    assert run.selection == {"ids": 4}
    shown = operator.get(reverse("admin:jobs_bulkrun_change", args=[run.pk])).content.decode()
    assert "4 chosen rows" in shown
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
    assert started() == []
    confirm(operator, page, reason="obsolete")
    assert finish()[0].done == 3
    assert {now(letter).resolution for letter in letters} == {"discarded"}


@pytest.mark.req("J-16", "O-08")
def test_jobs_are_canceled_and_given_a_priority(operator: Client, acme: FirmRows) -> None:
    jobs = [JobQueueFactory(firm=acme.firm) for _ in range(2)]
    confirm(operator, choose(operator, JOBS, "set_priority", jobs), priority="0", reason="")
    confirm(operator, choose(operator, JOBS, "cancel", jobs), reason="")
    finish(2)
    assert [(now(job).priority, now(job).status) for job in jobs] == [(0, "canceled")] * 2


def test_sending_the_page_twice_decides_nothing_twice(operator: Client, acme: FirmRows) -> None:
    letters = dead_letters(acme.firm, 2)
    page = choose(operator, LETTERS, "reprocess", letters)
    confirm(operator, page, reason="")
    confirm(operator, page, reason="")
    first, second = finish(2)
    assert (first.done, second.done, second.refused) == (2, 0, 2)
    assert "does not allow this" in messages_of(confirm(operator, page, reason=""))
    with all_firms("test"):
        series = JobQueue.objects.filter(dead_letters__in=letters).values_list("series", flat=True)
        assert set(series) == {2}


def test_what_changed_after_the_page_was_opened_is_left_alone(
    operator: Client, acme: FirmRows
) -> None:
    stale, fresh = (JobQueueFactory(firm=acme.firm, status="failed") for _ in range(2))
    page = choose(operator, JOBS, "retry", [stale, fresh])
    with all_firms("test"):
        from django.db.models.functions import Now

        JobQueue.objects.filter(pk=stale.pk).update(series=2, updated_at=Now())
    confirm(operator, page, reason="")
    assert finish()[0].total == 1
    assert (now(stale).series, now(stale).status) == (2, "failed")
    assert now(fresh).status == "pending"


def test_one_refused_row_spoils_nothing_for_the_others(operator: Client, acme: FirmRows) -> None:
    JobQueueFactory(firm=acme.firm, idempotency_key="import:7", live_key="import:7")
    clash = JobQueueFactory(firm=acme.firm, status="failed", idempotency_key="import:7")
    fine = JobQueueFactory(firm=acme.firm, status="failed")
    answer = confirm(operator, choose(operator, JOBS, "retry", [clash, fine]), reason="")
    assert (finish()[0].done, finish()[0].refused) == (1, 1)
    page = operator.get(answer["Location"])
    assert "same idempotency key" in page.content.decode()
    assert (now(clash).status, now(fine).status) == ("failed", "pending")


def test_all_that_match_the_filter_really_are_all_and_the_filter_is_kept(
    operator: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MAX_IDS", 2)
    JobQueueFactory(firm=acme.firm, status="failed", category="sync")
    for _ in range(55):
        JobQueueFactory(firm=acme.firm, status="canceled", category="sync")
    listing = f"{JOBS}?category=sync&status=canceled"
    shown = operator.get(listing).context["cl"].result_list
    page = choose(operator, listing, "retry", [shown[0]], select_across="1")
    assert page.context["totals"].count == 55
    assert page.context["back"] == listing
    answer = confirm(operator, page, reason="")
    assert finish()[0].done == 55
    assert operator.get(answer["Location"]).context["back"] == listing


def test_an_address_that_leads_elsewhere_is_no_way_back(operator: Client, acme: FirmRows) -> None:
    page = choose(operator, LETTERS, "reprocess", dead_letters(acme.firm, 1))
    assert "Started for 1 dead letter." in messages_of(confirm(operator, page, reason=""))
    (run,) = started()
    address = reverse("admin:jobs_bulkrun_change", args=[run.pk])
    for back in ("https://evil.example/", "//evil.example", "javascript:alert(1)"):
        assert operator.get(address, {"back": back}).context["back"] == LETTERS


@pytest.mark.parametrize("listing", ["colour=red", "status=odd", "p=x&status=%00"])
def test_a_filter_that_the_list_does_not_know_is_refused(
    operator: Client, acme: FirmRows, listing: str
) -> None:
    url = reverse("admin:jobs_jobqueue_bulk_retry")
    assert operator.get(f"{url}?{listing}").status_code == 400
    answers = {"chosen": "all", "list": listing, "reason": ""}
    assert operator.post(url, answers).status_code == 400
    assert started() == []


@pytest.mark.parametrize("ids", ["", "   ", "not-an-id", "%00", "1 2 3"])
@pytest.mark.parametrize("chosen", ["", "ids"])
def test_no_rows_no_operation(operator: Client, acme: FirmRows, ids: str, chosen: str) -> None:
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    answer = operator.post(url, {"ids": ids, "chosen": chosen, "reason": "because"})
    assert "nothing was done" in messages_of(answer)
    assert started() == []


def sign_in_again(client: Client, page: Any, user: Any) -> Any:
    """Send the confirmation page after the session ended, sign in, and follow the redirect."""
    client.logout()
    login = urlsplit(confirm(client, page, reason="because")["Location"])
    client.force_login(user)
    return client.get(parse_qs(login.query)["next"][0], follow=True)


def test_whoever_signs_in_again_is_asked_about_the_same_rows(acme: FirmRows) -> None:
    dead_letters(acme.firm, 2, "Boom")
    dead_letters(acme.firm, 3, "Crash")
    user = new_member(acme.firm, Role.OPERATOR)
    client = Client()
    client.force_login(user)
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    again = sign_in_again(client, client.get(f"{url}?q=Boom&resolution=open"), user)
    assert again.context["totals"].count == 2
    confirm(client, again, reason="because")
    assert finish()[0].total == 2


@pytest.mark.parametrize("listing", ["", "?q=Boom&resolution=open"])
def test_rows_selected_by_hand_are_selected_again_after_signing_in(
    acme: FirmRows, listing: str
) -> None:
    letters = dead_letters(acme.firm, 3, "Boom")
    user = new_member(acme.firm, Role.OPERATOR)
    client = Client()
    client.force_login(user)
    page = choose(client, f"{LETTERS}{listing}", "discard", letters[:1])
    again = sign_in_again(client, page, user)
    assert again.request["PATH_INFO"] + again.request["QUERY_STRING"] == LETTERS + listing[1:]
    assert "Select them again" in again.content.decode()
    assert started() == []


@pytest.mark.req("T-01")
def test_viewers_are_offered_nothing_and_refused(member: Client, acme: FirmRows) -> None:
    page = member.get(LETTERS)
    assert "_selected_action" not in page.content.decode()
    asked = choose(member, LETTERS, "discard", [acme.dead_letter])
    assert "action" not in (asked.context or {})
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    answers = {"ids": str(acme.dead_letter.pk), "reason": "because"}
    assert member.post(url, answers).status_code == 403
    assert member.get(url).status_code == 403
    assert now(acme.dead_letter).resolution == ""
    board = member.get(BOARD)
    assert board.context["cards"]
    assert "Discard all" not in board.content.decode()


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
    confirm(operator, page, reason="because", ids=both)
    assert finish()[0].total == 1
    assert now(globex.dead_letter).resolution == ""


@pytest.mark.req("T-01")
def test_each_rows_own_firm_decides_about_the_role(acme: FirmRows, globex: FirmRows) -> None:
    client = browser_of(acme.firm, Role.OPERATOR)
    user = get_user_model().objects.get(username="operator@acme.example")
    member = MembershipFactory(firm=globex.firm, user=user, role=Role.VIEWER)
    page = choose(client, LETTERS, "discard", [acme.dead_letter, globex.dead_letter])
    assert (page.context["totals"].firms, page.context["left_alone"]) == ([("acme", 1)], 1)
    confirm(client, page, reason="because")
    assert finish()[0].firm_id == acme.firm.pk
    assert now(globex.dead_letter).resolution == ""
    # An operator of both firms starts one run in each, so that no firm sees the other's figures.
    with all_firms("test"):
        type(member).objects.filter(pk=member.pk).update(role=Role.OPERATOR)
    letters = [*dead_letters(acme.firm, 1), *dead_letters(globex.firm, 2)]
    answer = confirm(client, choose(client, LETTERS, "discard", letters), reason="because")
    assert answer["Location"] == reverse("admin:jobs_bulkrun_changelist")
    finished = finish(3)[1:]
    assert {(run.firm_id, run.done) for run in finished} == {(acme.firm.pk, 1), (globex.firm.pk, 2)}


@pytest.mark.req("T-03")
def test_platform_staff_start_one_run_on_every_firm(
    staff: Client, operator: Client, acme: FirmRows, globex: FirmRows
) -> None:
    page = staff.get(reverse("admin:jobs_deadletterqueue_bulk_discard"))
    assert page.context["totals"].count == 2
    confirm(staff, page, reason="because")
    (run,) = finish()
    assert (run.done, Firm.objects.get(pk=run.firm_id).slug) == (2, "system")
    address = reverse("admin:jobs_bulkrun_change", args=[run.pk])
    assert operator.get(address).status_code == 404
    assert fact(staff.get(address), "Firm") == "Every firm"
    listed = staff.get(reverse("admin:jobs_bulkrun_changelist")).content.decode()
    assert listed.count("Every firm") == 1


def test_a_run_on_the_system_firms_own_rows_is_not_said_to_be_on_every_firm(
    staff: Client, system_firm: Firm, acme: FirmRows
) -> None:
    letters = dead_letters(system_firm, 2)
    confirm(staff, choose(staff, LETTERS, "discard", letters), reason="because")
    (run,) = finish()
    page = staff.get(reverse("admin:jobs_bulkrun_change", args=[run.pk]))
    assert (run.done, fact(page, "Firm")) == (2, system_firm.name)
    listed = staff.get(reverse("admin:jobs_bulkrun_changelist")).content.decode()
    assert "Every firm" not in listed


def test_the_page_says_that_there_are_more_causes_than_it_shows(
    operator: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.queries.bulk.CAUSES_SHOWN", 2)
    for number in range(3):
        dead_letters(acme.firm, 3 - number, f"Boom{number}")
    page = operator.get(reverse("admin:jobs_deadletterqueue_bulk_discard"))
    assert [cause.count for cause in page.context["totals"].causes] == [3, 2]
    assert "and 2 less frequent causes" in page.content.decode()


def test_many_firms_do_not_push_the_form_off_the_page(staff: Client, system_firm: Firm) -> None:
    for number in range(12):
        dead_letters(FirmFactory(slug=f"firm-{number:02}"), 12 - number)
    page = staff.get(reverse("admin:jobs_deadletterqueue_bulk_discard"))
    shown, _, folded = page.content.decode().partition("<summary>and 2 more</summary>")
    assert [f'<th scope="row">firm-{n:02}</th>' in shown for n in range(12)] == [True] * 10 + [
        False
    ] * 2
    assert "firm-10 2, firm-11 1" in folded


def test_a_post_without_the_forms_token_is_refused(acme: FirmRows) -> None:
    client = browser_of(acme.firm, Role.OPERATOR, strict=True)
    url = reverse("admin:jobs_deadletterqueue_bulk_discard")
    answers = {"ids": str(acme.dead_letter.pk), "reason": "because"}
    assert client.post(url, answers).status_code == 403
    assert now(acme.dead_letter).resolution == ""


def test_the_board_shows_groups_and_leads_to_what_can_be_done(
    operator: Client, acme: FirmRows, globex: FirmRows
) -> None:
    dead_letters(acme.firm, 2), dead_letters(globex.firm, 5)
    page = operator.get(BOARD)
    cards = page.context["cards"]
    assert (cards[0]["group"].count, cards[0]["query"]) == (2, "q=Boom&resolution=open")
    assert "globex" not in page.content.decode().lower()
    asked = operator.get(
        f"{reverse('admin:jobs_deadletterqueue_bulk_reprocess')}?{cards[0]['query']}"
    )
    assert asked.context["totals"].count == 2


def test_the_button_for_one_dead_letter_does_not_say_all(operator: Client, acme: FirmRows) -> None:
    dead_letters(acme.firm, 1, "Once"), dead_letters(acme.firm, 2, "Twice")
    board = operator.get(BOARD).content.decode()
    assert "Discard all 2</a>" in board
    assert "Discard</a>" in board
    assert "all 1" not in board


def test_the_board_and_the_count_show_the_name_of_an_errors_class(
    operator: Client, acme: FirmRows
) -> None:
    letter = dead_letters(acme.firm, 1, "shop.errors.PartnerAway")[0]
    with all_firms("test"):
        DeadLetterQueue.objects.filter(pk=letter.pk).update(error="it broke", fingerprint="feed")
    board = operator.get(BOARD).content.decode()
    assert "PartnerAway: it broke" in board
    counted = choose(operator, LETTERS, "reprocess", [letter]).content.decode()
    assert "PartnerAway" in counted
    page = reverse("admin:jobs_deadletterqueue_change", args=[letter.pk])
    assert "shop.errors.PartnerAway: it broke" in operator.get(page).content.decode()
    for listed in (board, counted):
        assert "shop.errors" not in listed


@pytest.mark.parametrize("choice", [{"q": "feed", "resolution": "open"}, {"fingerprint": "feed"}])
def test_a_run_leads_to_the_failure_that_it_was_started_for(
    operator: Client, acme: FirmRows, choice: dict[str, str]
) -> None:
    letters = dead_letters(acme.firm, 2)
    confirm(operator, choose(operator, LETTERS, "reprocess", letters), reason="")
    (run,) = started()
    with all_firms("test"):
        BulkRun.objects.filter(pk=run.pk).update(selection={"filter": choice})
    page = operator.get(reverse("admin:jobs_bulkrun_change", args=[run.pk])).content.decode()
    assert f'href="{LETTERS}?q=feed"' in page
    assert "q: feed" not in page


def test_the_bar_of_a_large_run_is_as_long_as_the_run(
    operator: Client, acme: FirmRows, settings: Any
) -> None:
    settings.USE_THOUSAND_SEPARATOR = True
    (letter,) = dead_letters(acme.firm, 1)
    confirm(operator, choose(operator, LETTERS, "discard", [letter]), reason="old")
    (run,) = started()
    with all_firms("test"):
        BulkRun.objects.filter(pk=run.pk).update(total=12_345, done=6_789)
    page = operator.get(reverse("admin:jobs_bulkrun_change", args=[run.pk])).content.decode()
    assert 'value="6789" max="12345"' in page


def test_the_progress_is_json_and_a_run_is_stopped_once(operator: Client, acme: FirmRows) -> None:
    letters = dead_letters(acme.firm, 2)
    confirm(operator, choose(operator, LETTERS, "reprocess", letters), reason="", canary_size="1")
    (run,) = started()
    progress = operator.get(reverse("admin:jobs_bulkrun_progress", args=[run.pk])).json()
    assert (progress["state"], progress["handled"]) == ("running", 0)
    assert progress["canary"] == "The canary of 1 goes first."
    stop = reverse("admin:jobs_bulkrun_stop", args=[run.pk])
    assert operator.post(stop, {"reason": "no", "seen": ""}).status_code == 302
    assert operator.post(stop, {"reason": "no", "seen": ""}).status_code == 409
    assert finish()[0].state == "stopped"
    assert {now(letter).resolution for letter in letters} == {""}


@pytest.mark.req("J-25")
def test_a_run_that_no_worker_serves_says_so_and_since_when(
    operator: Client, acme: FirmRows
) -> None:
    letters = dead_letters(acme.firm, 2)
    confirm(operator, choose(operator, LETTERS, "reprocess", letters), reason="")
    (run,) = started()
    with all_firms("test"):
        BulkRun.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(hours=3))
    page = reverse("admin:jobs_bulkrun_change", args=[run.pk])
    said = "No row was handled for 3 h. The job of this run waits: no worker is alive"
    assert said in operator.get(page).content.decode()
    progress = reverse("admin:jobs_bulkrun_progress", args=[run.pk])
    assert said in operator.get(progress).json()["waits"]
    with all_firms("test"):
        WorkerFactory(categories=["export"])
        WorkerFactory(job_types=["noop"], categories=["maintenance"], pid=43)
    text = operator.get(page).content.decode()
    assert "no live worker serves the type dlq_bulk (queue default)" in text
    with all_firms("test"):
        WorkerFactory(job_types=["dlq_bulk"], pid=44)
        soon = timezone.now() + timedelta(seconds=10)
        JobQueue.objects.filter(pk=run.job_id).update(scheduled_at=soon)
    assert operator.get(progress).json()["waits"] == ""
    finish()
    assert "The job of this run waits" not in operator.get(page).content.decode()


def test_a_run_says_what_the_jobs_of_its_canary_wait_for(operator: Client, acme: FirmRows) -> None:
    letters = dead_letters(acme.firm, 2)
    confirm(operator, choose(operator, LETTERS, "reprocess", letters), reason="", canary_size="1")
    (run,) = started()
    with all_firms("test"):
        WorkerFactory(job_types=["dlq_bulk"])
    do_step(run.pk, acme.firm, run.job_id, row(run.job_id).lease_token)
    progress = operator.get(reverse("admin:jobs_bulkrun_progress", args=[run.pk])).json()
    assert "canary of 1: no live worker serves the type noop" in progress["canary"]
    assert progress["waits"] == ""


def test_a_time_that_the_page_never_wrote_is_none(operator: Client, acme: FirmRows) -> None:
    page = choose(operator, LETTERS, "discard", [acme.dead_letter])
    for wrong in ("soon", "2026-01-01T00:00:00", "9999-12-31T23:59:59-23:59"):
        answer = confirm(operator, page, reason="obsolete", seen_at=wrong)
        assert answer.status_code == 302, wrong
    assert {run.total for run in started()} == {1}


def test_a_canary_of_all_is_refused_at_its_field(operator: Client, acme: FirmRows) -> None:
    page = choose(operator, LETTERS, "reprocess", dead_letters(acme.firm, 2))
    refused = confirm(operator, page, reason="", canary_size="2")
    assert refused.status_code == 400
    said = {"canary_size": ["Must be less than the 2 rows of the run."]}
    assert refused.context["form"].errors == said
    assert started() == []
    confirm(operator, refused, reason="", canary_size="1")
    assert [run.canary_size for run in started()] == [1]


@pytest.mark.req("T-03")
def test_a_canary_refused_in_one_firm_starts_no_run_in_the_other(
    acme: FirmRows, globex: FirmRows
) -> None:
    client = browser_of(acme.firm, Role.OPERATOR)
    user = get_user_model().objects.get(username="operator@acme.example")
    MembershipFactory(firm=globex.firm, user=user, role=Role.OPERATOR)
    letters = [*dead_letters(acme.firm, 3), *dead_letters(globex.firm, 2)]
    page = choose(client, LETTERS, "reprocess", letters)
    refused = confirm(client, page, reason="", canary_size="2")
    (said,) = refused.context["form"].errors["canary_size"]
    assert said == f"{globex.firm}: must be less than the 2 rows of the run."
    assert started() == []
    confirm(client, page, reason="", canary_size="1")
    assert len(started()) == 2
