"""The overview, dead letters, locks, workers, and the error pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobs.admin.job import JobAdmin
from jobs.engine.clock import database_now, stopped_at
from jobs.models import Attempt, DeadLetterQueue, JobQueue, Pause, Worker
from jobs.operations.dead_letters import reprocess
from jobs.queries import live
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import UserFactory
from tests.jobs.admin.conftest import FirmRows
from tests.jobs.admin.pages import crumbs
from tests.queue_kit import later

pytestmark = pytest.mark.req("O-03")


def tiles(client: Client) -> dict[str, str]:
    response = client.get(reverse("admin:index"))
    assert response.status_code == 200
    return {tile.label: tile.value for tile in response.context["tiles"]}


def test_the_overview_shows_live_figures(
    member: Client, acme: FirmRows, live_worker: Worker
) -> None:
    before = timezone.now() - timedelta(hours=3)
    JobQueueFactory(firm=acme.firm, status="processing")
    JobQueueFactory(firm=acme.firm, scheduled_at=before)
    shown = tiles(member)
    assert shown["Runnable now"] == "2"
    assert shown["Running"] == "1"
    assert shown["Oldest wait"] == "3 h"
    assert shown["Open dead letters"] == "1"


def test_the_overview_of_a_big_queue_says_of_when_its_counts_are(
    staff: Client, acme: FirmRows, live_worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEPT_FROM", 1)
    monkeypatch.setattr(live, "_counts", {})
    JobQueueFactory(firm=acme.firm)
    with later(0) as now:
        first = staff.get(reverse("admin:index"))
    JobQueueFactory(firm=acme.firm)
    with stopped_at(now + timedelta(seconds=0.5)):
        second = staff.get(reverse("admin:index"))
    assert "jobs were counted" not in first.content.decode()
    assert "Waiting and running jobs were counted just now." in second.content.decode()
    assert second.context["tiles"][0].value == first.context["tiles"][0].value


@pytest.mark.req("J-25")
def test_the_overview_says_what_is_held_back_and_by_what(member: Client, acme: FirmRows) -> None:
    JobQueueFactory(firm=acme.firm, category="export")
    JobQueueFactory(firm=acme.firm, job_type="sync", category="sync")
    page = member.get(reverse("admin:index"))
    held = next(tile for tile in page.context["tiles"] if tile.label == "Held back")
    assert (held.value, held.note) == ("2", "1 paused, 1 breaker")
    text = " ".join(page.content.decode().split())
    assert "category export</a> for Acme" in text
    assert "sync</a> for Acme" in text
    listed = member.get(held.href)
    assert {job.wait_code for job in listed.context["cl"].result_list} == {"paused", "breaker"}
    paused = member.get(reverse("admin:jobs_jobqueue_changelist"), {"held_back": "paused"})
    (job,) = paused.context["cl"].result_list
    assert job.category == "export"
    refused = member.get(reverse("admin:jobs_jobqueue_changelist"), {"held_back": "magic"})
    assert refused.status_code == 400


@pytest.mark.req("T-03")
def test_a_pause_of_every_firm_is_shown_without_a_way_to_it(
    member: Client, acme: FirmRows, globex: FirmRows, system_firm: Firm
) -> None:
    with all_firms("test"):
        pause = Pause.objects.create(
            firm=system_firm, everywhere=True, reason="a deploy", paused_by="staff@example.org"
        )
    text = member.get(reverse("admin:index")).content.decode()
    assert "everything for every firm" in " ".join(text.split())
    assert "a deploy" in text
    assert str(pause.pk) not in text
    assert "secret of globex" not in text


def test_counts_lead_to_the_jobs_behind_them(member: Client, acme: FirmRows) -> None:
    response = member.get(reverse("admin:index"))
    line = next(line for line in response.context["lines"] if line.name == "export")
    cell = next(cell for cell in line.cells if cell.value)
    shown = member.get(cell.href).context["cl"].result_list
    assert [job.pk for job in shown] == [acme.dead.pk]


def test_the_overview_costs_a_fixed_number_of_queries(staff: Client, acme: FirmRows) -> None:
    tiles(staff)
    with CaptureQueriesContext(connection) as few:
        tiles(staff)
    for _ in range(20):
        JobQueueFactory(firm=acme.firm, category="sync")
    with CaptureQueriesContext(connection) as many:
        tiles(staff)
    assert len(many) == len(few) <= 30


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({}, 1),
        ({"resolution": "open"}, 1),
        ({"resolution": "discarded"}, 0),
        ({"reason": "fatal", "category": "export", "type": "noop", "age": "1h"}, 1),
        ({"reason": "poison"}, 0),
        ({"q": "abc123"}, 1),
        ({"q": "ValueError"}, 1),
        ({"q": "nothing like it"}, 0),
    ],
)
def test_dead_letters_are_filtered_and_found(
    member: Client, acme: FirmRows, query: dict[str, str], count: int
) -> None:
    response = member.get(reverse("admin:jobs_deadletterqueue_changelist"), query)
    assert response.status_code == 200
    assert len(response.context["cl"].result_list) == count


def facts_of(page: Any) -> dict[str, Any]:
    """Return the facts on a row's page, by label."""
    return {fact.label: fact.value for fact in page.context["facts"]}


def test_a_dead_letters_page_says_why_and_leads_to_its_job(member: Client, acme: FirmRows) -> None:
    address = reverse("admin:jobs_deadletterqueue_change", args=[acme.dead_letter.pk])
    text = member.get(address).content.decode()
    assert "ValueError: secret of acme" in text
    assert "fatal" in text
    assert reverse("admin:jobs_jobqueue_change", args=[acme.dead.pk]) in text


def test_a_dead_letters_page_shows_the_last_traceback_at_once(
    member: Client, acme: FirmRows
) -> None:
    with all_firms("test"):
        for number, traceback in ((1, "the first try"), (2, "File handler.py, line 7")):
            Attempt.objects.create(
                firm=acme.firm,
                job=acme.dead,
                series=acme.dead_letter.job_series,
                number=number,
                end="retried",
                ended_at=timezone.now() + timedelta(seconds=number),
                traceback=traceback,
            )
    address = reverse("admin:jobs_deadletterqueue_change", args=[acme.dead_letter.pk])
    text = member.get(address).content.decode()
    assert "File handler.py, line 7" in text
    assert "the first try" not in text


def test_the_page_of_a_reprocessed_dead_letter_tells_what_died_from_the_job_now(
    operator: Client, acme: FirmRows
) -> None:
    address = reverse("admin:jobs_deadletterqueue_change", args=[acme.dead_letter.pk])
    before = operator.get(address)
    assert "Payload</h2>" in before.content.decode()
    assert facts_of(before)["Attempts"] == "1 of 3"
    with all_firms("test"):
        edited = {**acme.dead.payload, "correlation_id": "mended"}
        reprocess(acme.dead_letter, payload=edited)
        JobQueue.objects.filter(pk=acme.dead.pk).update(status="completed", attempts=2)
    after = operator.get(address)
    text = after.content.decode()
    assert "Payload of the job now</h2>" in text
    assert "is now completed in series 2. A dead letter keeps no payload" in text
    assert facts_of(after)["Attempts"] == "1"


def test_words_of_a_dead_letter(member: Client, acme: FirmRows) -> None:
    job = JobQueueFactory(firm=acme.firm, status="dlq", job_type="shop.report")
    letter = DeadLetterQueueFactory(
        original_job=job,
        reason="invalid_payload",
        error_class="a.very.long.module.path.PayloadInvalid",
        error="tenant_id: missing",
    )
    listed = member.get(reverse("admin:jobs_deadletterqueue_changelist")).content.decode()
    assert "PayloadInvalid: tenant_id: missing" in listed
    assert "module.path" not in listed
    page = member.get(reverse("admin:jobs_deadletterqueue_change", args=[letter.pk]))
    assert "Invalid payload: PayloadInvalid" in page.content.decode()
    page = member.get(reverse("admin:jobs_jobqueue_change", args=[job.pk])).content.decode()
    assert "shop.report" in page
    assert "Shop.report" not in page


@pytest.mark.parametrize("name", ["deadletterqueue", "concurrencylock", "pause"])
def test_an_empty_list_offers_nothing_that_cannot_be_done(firm: Firm, name: str) -> None:
    address = reverse(f"admin:jobs_{name}_changelist")
    client = Client()
    client.force_login(UserFactory(is_staff=True, member_of=firm, member_of__role=Role.OPERATOR))
    text = client.get(address).content.decode()
    assert "Create a new item" not in text
    assert "queue-empty" in text
    assert "Show all" not in text
    assert f"{address}add/" not in text


def test_a_search_in_vain_leads_back_to_all_rows(member: Client, acme: FirmRows) -> None:
    address = reverse("admin:jobs_deadletterqueue_changelist")
    for query, how in (
        ({"reason": "poison"}, "with these filters"),
        ({"q": "none"}, "by this search"),
        ({"reason": "poison", "q": "none"}, "by this search with these filters"),
    ):
        text = member.get(address, query).content.decode()
        assert f"No dead letter was found {how}." in text
        assert "Show all" in text


def test_a_search_for_nothing_but_spaces_is_none(member: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        DeadLetterQueue.objects.all().delete()
    listed = member.get(reverse("admin:jobs_deadletterqueue_changelist"), {"q": " "})
    assert "No dead letters." in listed.content.decode()
    assert "was found" not in listed.content.decode()


def test_the_sidebar_offers_the_list_of_every_table(staff: Client) -> None:
    groups = staff.get(reverse("admin:index")).context["sidebar_navigation"]
    offered = {item["link"] for group in groups for item in group["items"]}
    lists = {
        model["admin_url"]
        for app in admin.site.get_app_list(staff.get("/admin/").wsgi_request)
        for model in app["models"]
    }
    assert lists - offered == set()


def test_a_refused_form_shows_the_products_own_page(acme: FirmRows) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post(reverse("admin:login"), {"username": "a", "password": "b"})
    assert response.status_code == 403
    assert "This form was not accepted" in response.content.decode()
    assert "color-scheme: light dark" in response.content.decode()


def test_a_locks_holder_leads_to_its_job(member: Client, acme: FirmRows) -> None:
    text = member.get(reverse("admin:jobs_concurrencylock_changelist")).content.decode()
    assert "export:acme" in text
    assert reverse("admin:jobs_jobqueue_change", args=[acme.waiting.pk]) in text


def test_a_silent_and_a_dead_worker_look_different(staff: Client, live_worker: Worker) -> None:
    now = timezone.now()
    live_worker.lease_expires_at = now - timedelta(minutes=1)
    live_worker.save()
    address = reverse("admin:jobs_worker_changelist")
    assert "silent" in staff.get(address).content.decode()
    live_worker.dead_at = now
    live_worker.save()
    assert "dead" in staff.get(address).content.decode()


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_worker_is_live_whatever_the_clock_of_the_machine_that_shows_it(
    staff: Client, live_worker: Worker, hours: int
) -> None:
    workers = reverse("admin:jobs_worker_changelist")
    live_worker.lease_expires_at = database_now() + timedelta(seconds=60 * hours)
    live_worker.save()
    with time_machine.travel(timezone.now() + timedelta(hours=hours)):
        listed, asked = (staff.get(workers + end).content.decode() for end in ("", "host/"))
    assert ("silent" in listed) == (hours < 0)
    assert (f">{live_worker.host}</option>" in asked) == (hours > 0)


@pytest.mark.req("W-05")
def test_a_worker_is_not_shown_with_jobs_that_have_ended(
    staff: Client, live_worker: Worker, acme: FirmRows
) -> None:
    runs = JobQueueFactory(firm=acme.firm, status="processing", worker_id=live_worker.pk)
    live_worker.running = [str(acme.dead.pk), str(runs.pk)]
    live_worker.save()
    listed = staff.get(reverse("admin:jobs_worker_changelist")).content.decode()
    assert "1 of 3" in listed
    page = staff.get(reverse("admin:jobs_worker_change", args=[live_worker.pk])).content.decode()
    assert str(runs.pk) in page
    assert str(acme.dead.pk) not in page


def test_an_error_shows_the_products_own_page_and_no_details(
    acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(JobAdmin, "get_search_results", broken)
    client = Client(raise_request_exception=False)
    client.force_login(acme.membership.user)
    response = client.get(reverse("admin:jobs_jobqueue_changelist"))
    assert response.status_code == 500
    assert "Something went wrong on our side" in response.content.decode()
    assert "hunter2" not in response.content.decode()


def test_what_is_not_allowed_shows_the_products_own_page(member: Client, acme: FirmRows) -> None:
    response = member.get(reverse("admin:jobs_jobqueue_add"))
    assert response.status_code == 403
    assert "This is not for you to do" in response.content.decode()


def test_the_sidebar_marks_the_one_page_that_is_open(member: Client, acme: FirmRows) -> None:
    for page, marked in (
        ("admin:jobs_deadletterqueue_groups", "Triage board"),
        ("admin:jobs_deadletterqueue_changelist", "Dead letters"),
        ("admin:index", "Overview"),
    ):
        sections = member.get(reverse(page)).context["sidebar_navigation"]
        items = [item for section in sections for item in section["items"]]
        assert [item["title"] for item in items if item["active"]] == [marked]


@pytest.mark.req("W-05")
def test_times_of_a_worker_are_to_the_second_and_name_their_zone(
    staff: Client, live_worker: Worker
) -> None:
    page = staff.get(reverse("admin:jobs_worker_change", args=[live_worker.pk])).content.decode()
    for moment in (live_worker.heartbeat_at, live_worker.lease_expires_at):
        assert f"{moment:%Y-%m-%d %H:%M:%S} UTC" in page


def test_the_triage_board_is_called_so(member: Client) -> None:
    assert crumbs(member.get(reverse("admin:jobs_deadletterqueue_groups"))) == ["Triage board"]


def test_a_dead_letter_says_its_reason_once(acme: FirmRows) -> None:
    letter = acme.dead_letter
    letter.reason, letter.error_class = "fatal", "jobs.errors.Fatal"
    assert str(letter) == "Fatal"
    letter.error_class = "shop.errors.NoStreet"
    assert str(letter) == "Fatal: NoStreet"


def test_a_dead_letter_leads_to_all_with_its_failure(member: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        DeadLetterQueueFactory(
            original_job__firm=acme.firm, fingerprint=acme.dead_letter.fingerprint
        )
    page = member.get(reverse("admin:jobs_deadletterqueue_change", args=[acme.dead_letter.pk]))
    listing = f"{reverse('admin:jobs_deadletterqueue_changelist')}?q={acme.dead_letter.fingerprint}"
    assert f'href="{listing}"' in page.content.decode()
    assert len(member.get(listing).context["cl"].result_list) == 2


def test_a_workers_page_names_its_types_and_links_its_jobs(
    staff: Client, acme: FirmRows, live_worker: Worker
) -> None:
    job = JobQueueFactory(firm=acme.firm, status="processing", worker_id=live_worker.pk)
    live_worker.job_types, live_worker.running = ["cleanup", "sync"], [str(job.pk)]
    live_worker.save()
    page = staff.get(reverse("admin:jobs_worker_change", args=[live_worker.pk]))
    assert "cleanup, sync" in page.content.decode()
    address = reverse("admin:jobs_jobqueue_change", args=[job.pk])
    assert f'href="{address}">{job.pk}</a>' in page.content.decode()


def test_a_list_without_workers_says_how_one_is_started(staff: Client) -> None:
    page = staff.get(reverse("admin:jobs_worker_changelist")).content.decode()
    assert "manage.py runworker" in page


@pytest.mark.django_db
def test_the_login_offers_no_site_behind_it() -> None:
    page = Client().get(reverse("admin:login")).content.decode()
    assert "Log in" in page
    assert "Return to site" not in page
