"""The search of jobs: what each qualifier matches, what is refused, and how many rows are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from jobs.errors import SearchInvalid
from jobs.models import IdempotencyKey, JobQueue, Pause
from jobs.models.base import id_at
from jobs.queries import lists
from jobs.queries.lists import get_page, job_rows
from jobs.queries.search import error_search, find_jobs
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, envelope
from tests.factories.tenants import UserFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-08", "O-03")]


def found(firm: Firm | None, text: str, **options: Any) -> set[UUID]:
    with all_firms("test") if firm is None else firm_scope(firm):
        return {job.pk for job in find_jobs(job_rows(), search=text, **options).rows}


def fault(firm: Firm, text: str, **options: Any) -> tuple[str, str]:
    with pytest.raises(SearchInvalid) as error:
        found(firm, text, **options)
    (only,) = error.value.faults
    return only.field, only.code


def test_each_qualifier_keeps_what_it_names(firm: Firm) -> None:
    user = UserFactory(username="Ann@acme.example")
    dead = JobQueueFactory(
        firm=firm,
        job_type="ship",
        status="dlq",
        user=user,
        correlation_id="order-17",
        last_error="ValueError: no such Street 5",
    )
    with all_firms("test"):
        DeadLetterQueueFactory(original_job=dead, reason="exhausted")
        Pause.objects.create(firm=firm, job_type="noop", reason="x", paused_by="y")
    keyed = JobQueueFactory(firm=firm, idempotency_key="ship:17", live_key="ship:17")
    for text, job in (
        ("type:ship", dead),
        ("status:dlq", dead),
        ("error:street", dead),
        ('error:"no such street"', dead),
        ("correlation:order-17", dead),
        ("user:ann@acme.example", dead),
        ("reason:exhausted", dead),
        ("reason:paused", keyed),
        ("reason:anything", keyed),
        ("key:ship:17", keyed),
        ("key:ship", keyed),
        ("ship:17", keyed),
        ("ship:", keyed),
        ("order-17", dead),
        (str(dead.pk), dead),
        (f"type:ship status:dlq {str(dead.pk)[:8]}", dead),
    ):
        assert found(firm, text) == {job.pk}, text
    for text in (
        "type:shi",
        "type:ship status:pending",
        "error:avenue",
        "reason:fatal",
        "reason:locked",
        "key:hip",
        "correlation:order",
        f"type:noop {dead.pk}",
    ):
        assert found(firm, text) == set(), text
    assert found(firm, " ") == {dead.pk, keyed.pk}


def test_a_time_is_a_bound_a_period_a_day_or_a_span(firm: Firm) -> None:
    def job_of(moment: datetime) -> UUID:
        job = JobQueueFactory(firm=firm, job_id=UUID(int=id_at(moment).int + 1))
        with all_firms("test"):
            JobQueue.objects.filter(pk=job.pk).update(created_at=moment)
        return UUID(str(job.pk))

    new_year = datetime(2026, 1, 1, 12, tzinfo=UTC)
    old, day, later = (job_of(new_year + timedelta(days=days)) for days in (-1, 0, 1))
    now = job_of(timezone.now())
    for text, expected in (
        (">2026-01-01", {later, now}),
        (">=2026-01-01", {day, later, now}),
        ("<2026-01-01", {old}),
        ("<=2026-01-01", {old, day}),
        ("2026-01-01", {day}),
        ("2025-12-31..2026-01-01", {old, day}),
        (">2026-01-01T12:00:00Z", {day, later, now}),
        ("2026-01-01T11:00:00Z..2026-01-01T13:00:00+00:00", {day}),
        ("2h", {now}),
    ):
        assert found(firm, f"created:{text}") == expected, text


def test_what_cannot_be_searched_names_the_qualifier(firm: Firm) -> None:
    for text, expected in (
        ("status:dead", ("search.status", "invalid_choice")),
        ("reason:bad", ("search.reason", "invalid_choice")),
        ("created:soon", ("search.created", "invalid")),
        ("created:=2026-01-01", ("search.created", "invalid")),
        ("created:2026-02-31", ("search.created", "invalid")),
        ("created:2026-02-03..2026-01-31", ("search.created", "invalid")),
        # A span does not include its end, so this one is empty.
        ("created:2026-01-01T11:00Z..2026-01-01T11:00Z", ("search.created", "invalid")),
        ("created:>0001-01-01", ("search.created", "invalid")),
        ("created:30000d", ("search.created", "invalid")),
        ("created:999999d", ("search.created", "invalid")),
        ("tpye:sync", ("search.tpye", "unknown")),
        ("firm:nowhere", ("search.firm", "unknown")),
        ("user:nobody", ("search.user", "unknown")),
        ('type:""', ("search.type", "required")),
        ("type:", ("search.type", "required")),
        ("type:a type:b", ("search.type", "repeated")),
        ("payload.order:17", ("search.payload.order", "needs_type")),
        ("payload.order:17 type:ship", ("search.payload.order", "needs_created")),
        ("payload.a.token:17 type:ship created:1d", ("search.payload.a.token", "secret_key")),
        ("payload.api_token:17 type:ship created:1d", ("search.payload.api_token", "secret_key")),
        ("payload.page_token:17 type:ship", ("search.payload.page_token", "needs_created")),
        ("a\0b", ("search", "invalid")),
    ):
        assert fault(firm, text) == expected, text


def test_a_field_of_the_payload_is_found_beside_a_type_and_a_time(firm: Firm) -> None:
    def job_with(**payload: Any) -> UUID:
        job = JobQueueFactory(firm=firm, payload={**envelope(firm.pk), **payload})
        return UUID(str(job.pk))

    number, text = job_with(order=17), job_with(order="17")
    flag, inner = job_with(order=True), job_with(order={"id": "17"})
    where = "type:noop created:1d"
    assert found(firm, f"{where} payload.order:17") == {number, text}
    assert found(firm, f"{where} payload.order:true") == {flag}
    assert found(firm, f"{where} payload.order.id:17") == {inner}
    assert found(firm, f"{where} payload.order:1") == set()
    assert found(firm, "type:ship created:1d payload.order:17") == set()


@pytest.mark.req("T-03")
def test_other_firms_jobs_and_what_a_caller_may_not_read_stay_hidden(
    firm: Firm, other_firm: Firm
) -> None:
    mine, theirs = (
        JobQueueFactory(
            firm=owner,
            live_key="k",
            idempotency_key="k",
            payload={**envelope(owner.pk), "order": 17},
        )
        for owner in (firm, other_firm)
    )
    for text in ("key:k", "type:noop", "status:pending", str(theirs.pk), "created:1d"):
        assert theirs.pk not in found(firm, text)
    assert fault(firm, f"firm:{other_firm.slug}") == ("search.firm", "unknown")
    assert found(firm, f"firm:{firm.slug}") == {mine.pk}
    assert found(None, f"firm:{other_firm.slug} key:k") == {theirs.pk}
    assert found(None, "key:k") == {mine.pk, theirs.pk}
    by_payload = "type:noop created:1d payload.order:17"
    assert fault(firm, by_payload, readable=[]) == ("search.payload.order", "permission_denied")
    assert found(None, by_payload, readable=[firm.pk]) == {mine.pk}


@pytest.mark.req("J-07")
def test_a_key_that_is_kept_for_ever_leads_to_its_job(firm: Firm) -> None:
    job = JobQueueFactory(firm=firm, status="completed")
    with firm_scope(firm):
        IdempotencyKey.objects.create(firm=firm, key="invoice:7", job_id=job.pk)
        searched = find_jobs(job_rows(), search="key:invoice:7")
        assert searched.window is None
        assert [one.pk for one in searched.rows] == [job.pk]


def test_a_page_reads_so_much_and_the_next_goes_on(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(lists, "READING_SECONDS", 0)
    jobs = [JobQueueFactory(firm=firm, correlation_id=name) for name in "abcaaab"]
    JobQueueFactory(firm=other_firm)
    pages, cursor = [], None
    with firm_scope(firm):
        found = find_jobs(job_rows(), search="correlation:a")
        while True:
            page = get_page(found.rows, limit=2, cursor=cursor, window=found.window)
            pages.append([job.pk for job in page.rows])
            cursor = page.next_cursor
            if cursor is None:
                break
    newest_first = [job.pk for job in reversed(jobs)]
    # Each page reads three rows: b a a, then a c b, then a.
    assert pages == [newest_first[1:3], [newest_first[3]], [newest_first[6]]]


def test_a_search_reads_until_its_page_is_full_or_its_time_over(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "ROWS_AT_ONCE", 2)
    rare = JobQueueFactory(firm=firm, job_type="sync", status="failed", completed_at=timezone.now())
    for one in (firm, firm, other_firm, other_firm):
        JobQueueFactory(firm=one)
    filters = {"search": "type:sync"}
    with all_firms("test"):
        found = find_jobs(job_rows(), **filters)
        whole = get_page(found.rows, limit=2, window=found.window)
        assert [job.pk for job in whole.rows] == [rare.pk]
        assert whole.next_cursor is None
        monkeypatch.setattr(lists, "READING_SECONDS", 0)
        pages, cursor = [], None
        while not pages or cursor is not None:
            page = get_page(found.rows, limit=2, cursor=cursor, window=found.window)
            pages.append([job.pk for job in page.rows])
            cursor = page.next_cursor
        assert pages == [[], [], [rare.pk]]
        # The firm's jobs alone are read, if they are the only ones that can meet the filters.
        of_firm = find_jobs(job_rows().filter(firm=firm), firms=[firm.pk], **filters)
        assert of_firm.window is not None
        assert of_firm.window.last_read(of_firm.rows, 3) is not None
        assert of_firm.window.rows.count() == 3


@pytest.mark.parametrize(
    "chosen",
    [
        {"job_type": "sync", "status": "failed"},
        {"error": "x", "status": "dlq"},
        {"category": "sync", "status": "pending"},
        {"job_type": "sync", "held_back": "anything"},
        {"search": "status:canceled error:x"},
        {"job_type": "sync", "correlation_id": "x", "error": "x"},
        {},
    ],
)
def test_what_an_index_finds_is_found_at_once(firm: Firm, chosen: dict[str, str]) -> None:
    with firm_scope(firm):
        assert find_jobs(job_rows(), **chosen).window is None


@pytest.mark.parametrize(
    ("text", "of_jobs", "of_dead_letters"),
    [
        ("no such  street", 'error:"no such  street"', None),
        ('relation "foo" does not exist', 'error:"does not exist"', None),
        ("500", 'error:"500"', None),
        ("HTTP 500: error: boom", "", 'error:"HTTP 500: error: boom"'),
        ("no user: 17", "", 'error:"no user: 17"'),
        ("error:boom", "", None),
        ("01a22ff6", "", None),
        (' "" ', "", None),
    ],
)
def test_the_search_of_errors_that_is_offered_for_a_text(
    text: str, of_jobs: str, of_dead_letters: str | None
) -> None:
    assert error_search(text) == of_jobs
    if of_dead_letters is None:
        of_dead_letters = of_jobs
    assert error_search(text, qualified=False) == of_dead_letters
