"""Lists: their rows, filters, pages, and numbers of queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.models import DeadLetterQueue, Worker
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, WorkerFactory
from tests.jobs.api.conftest import Api, FirmRows, at, fields

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01")]

JOB_FIELDS = [
    "job_id", "firm", "category", "job_type", "status", "priority", "attempts", "max_attempts",
    "correlation_id", "parent_id", "lock_key", "limit_key", "limit_units", "idempotency_key",
    "last_error", "scheduled_at", "created_at", "started_at", "completed_at",
]  # fmt: skip
DETAIL_FIELDS = [
    *JOB_FIELDS,
    "progress", "progress_note", "lock_counted_by", "payload", "result", "attempts_log", "steps", "log", "children", "batches", "callback_of", "then", "dead_letter_id", "why_waiting",
]  # fmt: skip
DEAD_LETTER_FIELDS = [
    "id", "job_id", "firm", "category", "job_type", "reason", "error_class", "error",
    "fingerprint", "moved_at", "resolution", "resolution_note", "reviewed_by", "reviewed_at",
    "assigned_to",
]  # fmt: skip
STATUSES = ["pending", "claimed", "processing", "completed", "failed", "dlq", "canceled"]


def pages(api: Api, path: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Yield each page of a list, to its end."""
    cursor: dict[str, Any] = {}
    while True:
        page = api.get(path, {**query, **cursor}).json()
        yield page
        if page["next"] is None:
            return
        cursor = {"cursor": page["next"]}


def queries(api: Api, path: str, **query: Any) -> int:
    with CaptureQueriesContext(connection) as asked:
        assert api.get(path, query).status_code == 200
    return len(asked)


def test_a_job_in_a_list(viewer: Api, acme: FirmRows) -> None:
    rows = viewer.results("jobs/")
    assert [list(row) for row in rows] == [JOB_FIELDS] * 3
    (dead,) = viewer.results("jobs/", {"status": "dlq"})
    assert dead["job_id"] == str(acme.dead.pk)
    assert dead["firm"] == "acme"
    assert dead["completed_at"].endswith("Z")
    assert dead["lock_key"] is None


def test_a_job_with_everything_that_belongs_to_it(operator: Api, acme: FirmRows) -> None:
    shown = operator.get(f"jobs/{acme.dead.pk}/").json()
    assert list(shown) == DETAIL_FIELDS
    assert shown["attempts_log"][0]["error_class"] == "ValueError"
    assert shown["steps"][0]["result"] == {"text": acme.canary}
    assert [child["parent_id"] for child in shown["children"]] == [str(acme.dead.pk)]
    assert shown["dead_letter_id"] == str(acme.dead_letter.pk)


@pytest.mark.req("J-25")
def test_a_waiting_job_says_why(viewer: Api, acme: FirmRows) -> None:
    shown = viewer.get(f"jobs/{acme.waiting.pk}/").json()
    assert [reason["code"] for reason in shown["why_waiting"]] == ["no_worker"]


def test_a_dead_letter(viewer: Api, acme: FirmRows) -> None:
    (row,) = viewer.results("dlq/")
    assert list(row) == DEAD_LETTER_FIELDS
    assert row["resolution"] is None
    assert viewer.get(f"dlq/{row['id']}/").json() == row


def test_the_figures(viewer: Api, acme: FirmRows, worker: Worker) -> None:
    figures = viewer.get("queues/").json()
    assert list(figures) == [
        "generated_at", "window_minutes", "totals", "held_back", "categories", "workers",
        "dead_letters_open",
    ]  # fmt: skip
    reasons = ["paused", "firm_inactive", "breaker", "capped", "rate_limited", "locked"]
    assert list(figures["held_back"]) == list(figures["categories"][0]["held_back"]) == reasons
    assert figures["window_minutes"] == 60
    assert list(figures["totals"]) == STATUSES
    assert figures["workers"] == 1
    assert list(figures["categories"][0]) == [
        *STATUSES,
        "category", "runnable", "scheduled", "waiting_lock", "held_back", "oldest_wait_seconds",
        "completed_per_minute", "failure_rate",
    ]  # fmt: skip


def test_locks_and_workers(viewer: Api, acme: FirmRows, worker: Worker) -> None:
    (lock,) = viewer.results("locks/")
    assert lock["lock_key"] == acme.lock.lock_key
    (shown,) = viewer.results("workers/")
    assert (shown["host"], shown["pid"], shown["concurrency"]) == ("host-1", 42, 3)


@pytest.mark.req("J-20", "T-03")
def test_a_lock_over_all_firms_is_listed_for_platform_staff_alone(
    viewer: Api, staff: Api, acme: FirmRows
) -> None:
    with all_firms("test"):
        shared = type(acme.lock).objects.create(
            firm=Firm.objects.system(), lock_key="provider", holder_id="me", fencing_token=1
        )
    assert [one["id"] for one in viewer.results("locks/")] == [str(acme.lock.pk)]
    shown = {one["id"]: one for one in staff.results("locks/")}
    assert shown[str(shared.pk)]["counted_by"] == "all_firms"
    assert shown[str(acme.lock.pk)]["counted_by"] == "firm"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": "pending"}, {"waiting"}),
        ({"category": "export"}, {"dead"}),
        ({"job_type": "noop", "category": "export"}, {"dead"}),
        ({"job_type": "other"}, set()),
        ({"correlation_id": "canary-acme", "status": "dlq"}, {"dead"}),
        ({"correlation_id": "canary"}, set()),
        ({"error": "IT BROKE"}, {"dead"}),
        ({"error": "100%"}, set()),
        ({"search": "canary-acme:wel"}, {"waiting"}),
        ({"created_before": "2020-01-01T00:00:00Z"}, set()),
        ({"created_after": "2020-01-01T00:00:00", "status": "pending"}, {"waiting"}),
        ({"created_after": "2999-01-01T00:00:00+02:00"}, set()),
        ({"firm": "acme", "status": "dlq"}, {"dead"}),
    ],
)
def test_filters_of_jobs(
    query: dict[str, str], found: set[str], viewer: Api, acme: FirmRows
) -> None:
    names = {str(acme.waiting.pk): "waiting", str(acme.dead.pk): "dead"}
    assert {names[row["job_id"]] for row in viewer.results("jobs/", query)} == found


def test_a_job_is_found_by_the_beginning_of_its_id(viewer: Api, acme: FirmRows) -> None:
    assert [row["job_id"] for row in viewer.results("jobs/", {"search": str(acme.dead.pk)})] == [
        str(acme.dead.pk)
    ]
    assert len(viewer.results("jobs/", {"search": str(acme.dead.pk)[:8]})) == 3


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"resolution": "open"}, 2),
        ({"resolution": "escalated"}, 1),
        ({"resolution": "discarded"}, 1),
        ({"reason": "stale"}, 1),
        ({"category": "maintenance"}, 1),
        ({"job_type": "noop"}, 3),
        ({"fingerprint": "abc123"}, 1),
        ({"firm": "acme", "reason": "fatal"}, 1),
    ],
)
def test_filters_of_dead_letters(
    query: dict[str, str], count: int, viewer: Api, acme: FirmRows
) -> None:
    with all_firms("test"):
        for job, reason, resolution in (
            (
                JobQueueFactory(firm=acme.firm, status="failed", category="export"),
                "stale",
                "discarded",
            ),
            (JobQueueFactory(firm=acme.firm, status="dlq"), "poison", "escalated"),
        ):
            DeadLetterQueueFactory(
                original_job=job, reason=reason, resolution=resolution, fingerprint="other"
            )
    assert len(viewer.results("dlq/", query)) == count


def test_pages_hold_still_while_jobs_arrive(viewer: Api, acme: FirmRows) -> None:
    for _ in range(4):
        JobQueueFactory(firm=acme.firm)
    expected = [row["job_id"] for row in viewer.results("jobs/")]
    seen = []
    for page in pages(viewer, "jobs/", limit=2):
        assert len(page["results"]) <= 2
        seen += [row["job_id"] for row in page["results"]]
        JobQueueFactory(firm=acme.firm)
    assert seen == expected


@pytest.mark.parametrize("path", ["dlq/", "locks/", "pauses/", "workers/"])
def test_every_list_comes_in_pages(path: str, viewer: Api, acme: FirmRows) -> None:
    now = timezone.now().replace(microsecond=123_000)
    with all_firms("test"):
        DeadLetterQueue.objects.update(moved_at=now)
        for number in range(3):
            job = JobQueueFactory(firm=acme.firm, status="dlq")
            # Dead letters of one statement have the same time.
            DeadLetterQueueFactory(original_job=job, reason="stale", moved_at=now)
            type(acme.lock).objects.create(
                firm=acme.firm, lock_key=f"lock-{number}", holder_id="me", fencing_token=number
            )
            type(acme.pause).objects.create(
                firm=acme.firm, job_type=f"type-{number}", reason="r", paused_by="me"
            )
            WorkerFactory(pid=number)
    expected = [row["id"] for row in viewer.results(path)]
    assert len(expected) >= 3
    assert [
        row["id"] for page in pages(viewer, path, limit=1) for row in page["results"]
    ] == expected


@pytest.mark.parametrize(
    "cursor", ["nonsense", "bm90IGEgdXVpZA", "é", "MDAwMS0wMS0wMVQwMDowMDowMCsxNDowMCB4"]
)
@pytest.mark.parametrize("path", ["jobs/", "dlq/", "locks/", "pauses/", "workers/"])
def test_a_cursor_of_another_list_or_of_none_is_refused(
    cursor: str, path: str, viewer: Api
) -> None:
    assert fields(viewer.get(path, {"cursor": cursor})) == {"cursor": "cursor_invalid"}


@pytest.mark.parametrize("path", ["jobs/", "dlq/", "locks/", "pauses/", "workers/"])
def test_a_longer_list_costs_no_more_queries(
    path: str, viewer: Api, acme: FirmRows, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first request of a minute takes one statement more, which deletes the counts of old
    # callers.
    at(monkeypatch, 30)
    viewer.get(path)
    WorkerFactory()
    few = queries(viewer, path)
    with all_firms("test"):
        for number in range(20):
            job = JobQueueFactory(firm=acme.firm, status="dlq")
            DeadLetterQueueFactory(original_job=job, reason="stale")
            type(acme.lock).objects.create(
                firm=acme.firm, lock_key=f"lock-{number}", holder_id="me", fencing_token=number
            )
            type(acme.pause).objects.create(
                firm=acme.firm, job_type=f"type-{number}", reason="r", paused_by="me"
            )
            WorkerFactory(pid=number)
    assert queries(viewer, path) == few
    assert few < 30
