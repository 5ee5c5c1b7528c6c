"""Circuit breakers in the admin: they are shown, closed, and opened by hand."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import CircuitBreaker
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.jobs.admin.conftest import browser_of
from tests.jobs.admin.pages import audit_entries, messages_of, now, operation_url, submit

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-07")]

BREAKERS = reverse("admin:jobs_circuitbreaker_changelist")


@pytest.fixture
def open_one(firm: Firm) -> CircuitBreaker:
    with all_firms("test"):
        return CircuitBreaker.objects.create(
            firm=firm,
            job_type="ingest.gmail",
            state="open",
            trips=1,
            fingerprint="00000000000000aa",
            window_ends_at=timezone.now(),
            opened_at=timezone.now(),
            probe_at=timezone.now(),
        )


def test_an_operator_sees_and_closes_it(firm: Firm, open_one: CircuitBreaker) -> None:
    client = browser_of(firm, Role.OPERATOR)
    page = client.get(BREAKERS).content.decode()
    assert "ingest.gmail" in page
    assert (
        operation_url(open_one, "close")
        in client.get(
            reverse("admin:jobs_circuitbreaker_change", args=[open_one.pk])
        ).content.decode()
    )
    done = submit(client, open_one, "close", reason="Gmail is back")
    assert messages_of(done) == f"ingest.gmail: jobs of {firm.name} may start again."
    assert (done["Location"], now(open_one).state) == (BREAKERS, "closed")
    assert [entry.reason for entry in audit_entries(open_one.pk)] == ["Gmail is back"]
    done = submit(client, open_one, "open", reason="not yet")
    assert messages_of(done) == f"ingest.gmail: jobs of {firm.name} are held back."
    assert now(open_one).state == "open"


def test_a_job_that_it_holds_back_leads_to_it(firm: Firm, open_one: CircuitBreaker) -> None:
    job = JobQueueFactory(firm=firm, job_type="ingest.gmail")
    page = browser_of(firm, Role.VIEWER).get(reverse("admin:jobs_jobqueue_change", args=[job.pk]))
    assert (
        f'href="{BREAKERS}">Circuit breakers</a>' in page.content.decode().partition("Timeline")[0]
    )


def test_a_probe_whose_time_has_come_is_not_told_as_past(
    firm: Firm, open_one: CircuitBreaker
) -> None:
    client = browser_of(firm, Role.VIEWER)
    page = reverse("admin:jobs_circuitbreaker_change", args=[open_one.pk])
    for address in (BREAKERS, page):
        assert ">with the next job</time>" in client.get(address).content.decode()
    overview = client.get(reverse("admin:index")).content.decode()
    assert "open, next probe with the next job" in overview
    with all_firms("test"):
        CircuitBreaker.objects.update(probe_at=timezone.now() + timedelta(minutes=5))
    assert "open, next probe in 4 min" in client.get(reverse("admin:index")).content.decode()


def test_its_page_says_what_failed_and_leads_there(firm: Firm, open_one: CircuitBreaker) -> None:
    client = browser_of(firm, Role.VIEWER)
    address = reverse("admin:jobs_circuitbreaker_change", args=[open_one.pk])
    assert open_one.fingerprint in client.get(address).content.decode()
    letter = DeadLetterQueueFactory(
        original_job=JobQueueFactory(firm=firm, status="dlq", job_type="ingest.gmail"),
        fingerprint=open_one.fingerprint,
        error_class="mail.errors.Refused",
        error="535 no such login",
    )
    held = JobQueueFactory(firm=firm, job_type="ingest.gmail")
    page = client.get(address).content.decode()
    assert "Refused: 535 no such login (00000000000000aa)" in page
    letters, jobs = (
        client.get(unescape(found)).context["cl"].result_list
        for found in re.findall(r'href="(/admin/jobs/\w+/\?[^"]+)"', page)
    )
    assert [row.pk for row in letters] == [letter.pk]
    assert [row.pk for row in jobs] == [held.pk]


@pytest.mark.parametrize(
    ("state", "offered", "refused", "why"),
    [
        ("open", "close", "open", "The breaker is open already. To hold the jobs back"),
        ("half_open", "close", "open", "The breaker is half open already. To hold the jobs back"),
        ("closed", "open", "close", "The breaker is closed."),
    ],
)
def test_only_what_its_state_allows_is_offered(
    firm: Firm, open_one: CircuitBreaker, state: str, offered: str, refused: str, why: str
) -> None:
    with all_firms("test"):
        CircuitBreaker.objects.update(state=state)
    client = browser_of(firm, Role.OPERATOR)
    page = client.get(operation_url(open_one, "change")).content.decode()
    assert operation_url(open_one, offered) in page
    assert operation_url(open_one, refused) not in page
    # The word "breaker" is needed, because the theme's own "Close" leaves the page.
    assert f"{offered.capitalize()} breaker" in page
    answer = client.get(operation_url(open_one, refused))
    assert answer.status_code == 409
    assert why in answer.content.decode()


def test_a_viewer_sees_it_and_another_firm_does_not(
    firm: Firm, other_firm: Firm, open_one: CircuitBreaker
) -> None:
    viewer = browser_of(firm, Role.VIEWER)
    assert "ingest.gmail" in viewer.get(BREAKERS).content.decode()
    assert viewer.get(operation_url(open_one, "close")).status_code == 403
    stranger = browser_of(other_firm, Role.ADMIN)
    assert "00000000000000aa" not in stranger.get(BREAKERS).content.decode()
    assert stranger.get(operation_url(open_one, "close")).status_code == 404
    assert now(open_one).state == "open"


def test_what_changed_since_it_was_seen_is_left_alone(firm: Firm, open_one: CircuitBreaker) -> None:
    client: Client = browser_of(firm, Role.OPERATOR)
    shown = client.get(operation_url(open_one, "close"))
    with all_firms("test"):
        CircuitBreaker.objects.update(state="half_open")
    sent = {"seen": shown.context["seen"], "reason": "late"}
    answer = client.post(operation_url(open_one, "close"), sent)
    assert answer.status_code != 302
    assert now(open_one).state == "half_open"
