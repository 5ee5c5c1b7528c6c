"""`manage.py jobs`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from jobs.engine.enqueue import EnqueueResult
from jobs.management import job_operations
from jobs.models import Attempt, JobHour, JobMinute, JobQueue, JobStep, Pause
from jobs.states import Category, Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory, WorkerFactory
from tests.factories.tenants import UserFactory

pytestmark = pytest.mark.req("O-04")

ROW = {
    "job_id", "firm", "category", "job_type", "status", "priority", "attempts", "max_attempts",
    "correlation_id", "parent_id", "lock_key", "limit_key", "limit_units", "idempotency_key",
    "last_error", "scheduled_at", "created_at", "started_at", "completed_at",
}  # fmt: skip
DETAIL = ROW | {
    "progress", "progress_note", "lock_counted_by", "payload", "result", "attempts_log", "steps", "log", "children", "batches", "callback_of", "then", "dead_letter_id", "why_waiting",
}  # fmt: skip
CATEGORY = {
    "category", *Status, "runnable", "scheduled", "waiting_lock", "held_back", "oldest_wait_seconds",
    "completed_per_minute", "failure_rate",
}  # fmt: skip

Runner = Callable[..., Any]

NOBODYS_ID = "e9c29024-377c-4d6e-b65d-276496e214fc"


def ids(page: dict[str, Any]) -> list[str]:
    return [row["job_id"] for row in page["results"]]


def test_a_list_has_the_documented_shape(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm)
    page = run("jobs", "list", "--json").json
    assert page.keys() == {"results", "next"}
    assert page["next"] is None
    [row] = page["results"]
    assert row.keys() == ROW
    assert (row["job_id"], row["firm"], row["status"]) == (str(job.pk), "acme", "pending")
    assert row["created_at"].endswith("Z")
    assert [row[name] for name in ("parent_id", "lock_key", "last_error", "started_at")] == [
        None
    ] * 4


@pytest.mark.req("J-24")
def test_jobs_of_one_limit_key_are_listed_and_shown_with_it(run: Runner, firm: Firm) -> None:
    mine = JobQueueFactory(firm=firm, limit_key="mailbox:1", limit_units=5)
    JobQueueFactory(firm=firm, limit_key="mailbox:2")
    assert ids(run("jobs", "list", "--limit-key", "mailbox:1", "--json").json) == [str(mine.pk)]
    shown = run("jobs", "show", str(mine.pk)).out
    assert "mailbox:1" in shown
    assert "limit units" in shown


@pytest.mark.req("J-20")
def test_a_job_is_shown_with_whom_its_lock_counts(run: Runner, firm: Firm) -> None:
    mine = JobQueueFactory(firm=firm, lock_key="provider", lock_counted_by="all_firms")
    plain = JobQueueFactory(firm=firm, lock_key="provider")
    assert run("jobs", "show", str(mine.pk), "--json").json["lock_counted_by"] == "all_firms"
    assert "lock counted by" in run("jobs", "show", str(mine.pk)).out
    assert "lock counted by" not in run("jobs", "show", str(plain.pk)).out


@pytest.mark.req("J-01")
def test_jobs_and_dead_letters_of_one_user_are_listed(run: Runner, firm: Firm) -> None:
    mine, _ = (
        JobQueueFactory(firm=firm, user=UserFactory(username="ann")),
        JobQueueFactory(firm=firm),
    )
    dead = JobQueueFactory(firm=firm, user=UserFactory(username="bob"), status="dlq")
    letter = DeadLetterQueueFactory(original_job=dead)
    assert ids(run("jobs", "list", "--user", "Ann", "--json").json) == [str(mine.pk)]
    for name, found in (("bob", [str(letter.pk)]), ("ann", [])):
        shown = run("dlq", "list", "--user", name, "--json").json["results"]
        assert [row["id"] for row in shown] == found


@pytest.mark.req("O-01")
def test_a_user_whom_nobody_knows_is_no_empty_list(run: Runner, firm: Firm) -> None:
    for options in (["--user", "nobody"], ["--user", "nobody", "--firm", firm.slug]):
        for command in ("jobs", "dlq"):
            refused = run(command, "list", *options)
            assert (refused.code, refused.err) == (1, "user: there is no such user")


def test_cursors_walk_the_whole_list_newest_first(run: Runner, firm: Firm) -> None:
    jobs = [str(JobQueueFactory(firm=firm).pk) for _ in range(7)]
    seen, cursor = [], None
    while True:
        arguments = ["--cursor", cursor] if cursor else []
        page = run("jobs", "list", "--limit", "3", "--json", *arguments).json
        seen += ids(page)
        cursor = page["next"]
        if cursor is None:
            break
        JobQueueFactory(firm=firm)
    assert seen == jobs[::-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--status", "canceled"),
        ("--category", "export"),
        ("--type", "firm_export"),
        ("--correlation-id", "c-9"),
        ("--since", "30m"),
        ("--firm", "globex"),
    ],
)
def test_each_filter_narrows_the_list(
    run: Runner, firm: Firm, other_firm: Firm, arguments: tuple[str, str]
) -> None:
    JobQueueFactory(firm=firm, created_at=timezone.now() - timedelta(hours=1))
    wanted = JobQueueFactory(
        firm=other_firm,
        status="canceled",
        category="export",
        job_type="firm_export",
        correlation_id="c-9",
    )
    assert ids(run("jobs", "list", "--json", *arguments).json) == [str(wanted.pk)]


def test_json_may_be_given_before_the_subcommand(run: Runner, firm: Firm) -> None:
    assert run("jobs", "--json", "list").json == {"results": [], "next": None}


def test_a_shown_job_has_the_documented_shape(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(
        firm=firm, status="dlq", payload={"token": "hunter2", "n": 1}, result={"done": 2}
    )
    child = JobQueueFactory(firm=firm, parent=job)
    with all_firms("test"):
        letter = DeadLetterQueueFactory(original_job=job)
        Attempt.objects.create(firm=firm, job=job, series=1, number=1, end="retried", message="no")
        JobStep.objects.create(firm=firm, job=job, name="fetch", result={"pages": 3})
    shown = run("jobs", "show", str(job.pk), "--json").json
    assert shown.keys() == DETAIL
    assert shown["payload"] == {"token": "••••••", "n": 1}
    assert shown["result"] == {"done": 2}
    assert shown["dead_letter_id"] == str(letter.pk)
    assert [(row["number"], row["end"], row["message"]) for row in shown["attempts_log"]] == [
        (1, "retried", "no")
    ]
    (step,) = shown["steps"]
    assert (step["name"], step["result"], step["started_at"]) == ("fetch", {"pages": 3}, None)
    assert ids({"results": shown["children"]}) == [str(child.pk)]
    assert shown["why_waiting"] == []


@pytest.mark.parametrize("group", ["jobs", "dlq"])
def test_a_search_for_the_words_of_an_error_says_how_to_find_them(
    run: Runner, firm: Firm, group: str
) -> None:
    job = JobQueueFactory(firm=firm, status="dlq", last_error="no such street: 'Elm'", attempts=1)
    DeadLetterQueueFactory(original_job=job, error="no such street: 'Elm'")
    out = run(group, "list", "--search", "street: 'elm'").out
    _, _, told = out.partition("Text of errors: ")
    assert "no such street" in run(group, "list", *shlex.split(told)).out
    assert "Text of errors" not in run(group, "list", "--search", "error:meadow").out
    assert "Text of errors" not in run(group, "list", "--type", "noop").out


def test_a_job_that_was_started_again_is_shown_with_the_series_of_each_attempt(
    run: Runner, firm: Firm
) -> None:
    job = JobQueueFactory(firm=firm, status="dlq", series=2, attempts=1)
    with all_firms("test"):
        for series, number in ((1, 1), (1, 2), (2, 1)):
            Attempt.objects.create(
                firm=firm, job=job, series=series, number=number, end="retried", message="no"
            )
    shown = run("jobs", "show", str(job.pk)).out
    assert re.search(r"^series +2$", shown, re.MULTILINE)
    assert re.search(r"^Series +No +Ended", shown, re.MULTILINE)
    assert re.findall(r"^([12]) +([12]) .*retried", shown, re.MULTILINE) == [
        ("1", "1"),
        ("1", "2"),
        ("2", "1"),
    ]
    once = run("jobs", "show", str(JobQueueFactory(firm=firm).pk)).out
    assert "series" not in once


def test_the_beginning_of_an_id_is_enough_when_it_names_one_job(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm)
    shown = run("jobs", "show", str(job.pk)[:30], "--json")
    assert shown.json["job_id"] == str(job.pk)
    other = JobQueueFactory(firm=firm, job_type="classify")
    ambiguous = run("jobs", "show", str(job.pk)[:4])
    assert ambiguous.code == 1
    assert "give more of it" in ambiguous.err
    assert f"\n  {job.pk} acme noop pending" in ambiguous.err
    assert f"\n  {other.pk} acme classify pending" in ambiguous.err
    answer = run("jobs", "show", str(job.pk)[:4], "--json").json
    assert answer["code"] == "ambiguous_id"
    assert [fault["message"].split()[0] for fault in answer["errors"]] == [
        str(job.pk), str(other.pk),
    ]  # fmt: skip


def test_many_candidates_of_an_id_are_cut(run: Runner, firm: Firm) -> None:
    jobs = [JobQueueFactory(firm=firm) for _ in range(7)]
    refused = run("jobs", "cancel", str(jobs[0].pk)[:4]).err
    assert sum(str(job.pk) in refused for job in jobs) == 5
    assert "  and others" in refused


@pytest.mark.parametrize("subcommand", ["show", "why"])
@pytest.mark.parametrize("job_id", [NOBODYS_ID, "does-not-exist", "0"])
def test_a_job_that_does_not_exist_is_exit_3(run: Runner, subcommand: str, job_id: str) -> None:
    missing = run("jobs", subcommand, job_id, "--json")
    assert missing.code == 3
    assert missing.json["code"] == "not_found"


@pytest.mark.req("O-08")
def test_the_list_takes_qualifiers(run: Runner, firm: Firm, other_firm: Firm) -> None:
    job = JobQueueFactory(firm=firm, correlation_id="order-17")
    JobQueueFactory(firm=other_firm, correlation_id="order-17")
    search = ("jobs", "list", "--json", "--search")
    found = run(*search, "correlation:order-17 firm:acme created:1d").json
    assert [row["job_id"] for row in found["results"]] == [str(job.pk)]
    refused = run(*search, "correlation:order-17 status:none")
    assert (refused.code, refused.json["errors"][0]["field"]) == (1, "search.status")


def test_another_firms_job_is_not_found(run: Runner, firm: Firm, other_firm: Firm) -> None:
    job = JobQueueFactory(firm=other_firm)
    assert run("jobs", "show", str(job.pk), "--firm", "acme").code == 3
    assert run("jobs", "show", str(job.pk), "--firm", "globex").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--status", "lost"),
        ("list", "--category", "post"),
        ("list", "--status=--"),
        ("list", "--limit=--"),
        ("list", "--limit", "0"),
        ("list", "--limit", "many"),
        ("list", "--cursor", "made-up"),
        ("list", "--since", "yesterday"),
        ("list", "--since", "999999d"),
        ("list", "--search", "caf\udce9"),
        ("bulk", "retry", "--all", "--everywhere", "--start", "--reason", "caf\udce9"),
        ("enqueue", "noop", "--payload", "{"),
        ("enqueue", "noop", "--payload", "[]"),
        ("enqueue", "noop", "--at", "soon"),
        ("enqueue", "noop", "--at", "0206-11-25T00:00:00Z"),
        ("enqueue", "noop", "--at", "9999-12-31T23:59:59-05:00"),
        ("enqueue", "noop", "--delay", "-1"),
        ("enqueue", "noop", "--delay", "nan"),
        ("enqueue", "noop", "--delay", "inf"),
        ("enqueue", "noop", "--at", "2026-01-01T00:00:00Z", "--delay", "1"),
        ("enqueue", "noop", "--priority", "9"),
        ("juggle",),
        (),
    ],
)
def test_wrong_usage_is_exit_2(run: Runner, firm: Firm, arguments: tuple[str, ...]) -> None:
    assert run("jobs", *arguments).code == 2


def test_an_unknown_firm_is_exit_3(run: Runner) -> None:
    for subcommand in (("list",), ("stats",), ("enqueue", "noop")):
        assert run("jobs", *subcommand, "--firm", "nobody").code == 3


@pytest.mark.req("O-01")
def test_stats_have_the_documented_shape_and_count(
    run: Runner, firm: Firm, other_firm: Firm
) -> None:
    now = timezone.now()
    JobQueueFactory(firm=firm, scheduled_at=now - timedelta(seconds=90))
    JobQueueFactory(firm=firm, scheduled_at=now + timedelta(hours=1))
    JobQueueFactory(firm=firm, waiting=True, lock_key="k")
    JobQueueFactory(firm=firm, status="processing")
    dead = JobQueueFactory(firm=firm, status="dlq", category="export")
    JobQueueFactory(firm=other_firm, category="sync")
    WorkerFactory()
    WorkerFactory(lease_expires_at=now - timedelta(minutes=1))
    with all_firms("test"):
        DeadLetterQueueFactory(original_job=dead)
        for minutes, completed in ((5, 90), (600, 1000)):
            for model in (JobMinute, JobHour):
                model.objects.create(
                    firm=firm,
                    category="maintenance",
                    minute=now - timedelta(minutes=minutes),
                    completed=completed,
                    failed=4,
                    dlq=6,
                    canceled=1,
                )
    stats = run("jobs", "stats", "--firm", "acme", "--json").json
    assert stats.keys() == {
        "generated_at", "window_minutes", "totals", "held_back", "categories", "workers",
        "dead_letters_open",
    }  # fmt: skip
    assert stats["totals"] == {
        "pending": 3, "claimed": 0, "processing": 1, "completed": 1090, "failed": 8, "dlq": 1,
        "canceled": 2,
    }  # fmt: skip
    assert (stats["workers"], stats["dead_letters_open"], stats["window_minutes"]) == (1, 1, 60)
    by_name = {row["category"]: row for row in stats["categories"]}
    assert list(by_name) == [category.value for category in Category]
    busy, idle = by_name["maintenance"], by_name["sync"]
    assert busy.keys() == idle.keys() == CATEGORY
    assert (busy["runnable"], busy["scheduled"], busy["waiting_lock"]) == (1, 1, 1)
    assert busy["held_back"] == stats["held_back"]
    assert {code for code, jobs in busy["held_back"].items() if jobs} == {"locked"}
    assert 90 <= busy["oldest_wait_seconds"] < 600
    assert busy["completed_per_minute"] == 1.5
    assert busy["failure_rate"] == 0.1
    assert (idle["pending"], idle["oldest_wait_seconds"], idle["failure_rate"]) == (0, None, None)
    everyone = run("jobs", "stats", "--json").json
    assert everyone["totals"]["pending"] == 4


def test_stats_count_one_as_one(run: Runner, firm: Firm) -> None:
    assert "0 dead letters open, 0 live workers." in run("jobs", "stats").out
    DeadLetterQueueFactory(original_job__firm=firm)
    WorkerFactory()
    assert "1 dead letter open, 1 live worker." in run("jobs", "stats").out


@pytest.mark.req("J-25")
def test_stats_and_the_list_say_what_is_held_back(run: Runner, firm: Firm) -> None:
    held = JobQueueFactory(firm=firm, category="documents")
    JobQueueFactory(firm=firm)
    with all_firms("test"):
        Pause.objects.create(firm=firm, category="documents", reason="x", paused_by="y")
    printed = run("jobs", "stats").out
    assert "Held back: 1 paused." in printed
    assert run("jobs", "stats", "--json").json["held_back"]["paused"] == 1
    assert ids(run("jobs", "list", "--held-back", "paused", "--json").json) == [str(held.pk)]
    assert ids(run("jobs", "list", "--held-back", "locked", "--json").json) == []


@pytest.mark.req("J-25")
def test_why_names_what_stands_in_the_way(run: Runner, firm: Firm) -> None:
    later = JobQueueFactory(firm=firm, scheduled_at=timezone.now() + timedelta(hours=3))
    told = run("jobs", "why", str(later.pk), "--json").json
    assert told["status"] == "pending"
    assert [reason["code"] for reason in told["why_waiting"]] == ["scheduled", "no_worker"]
    assert told["why_waiting"][0]["until"].endswith("Z")
    done = JobQueueFactory(firm=firm, status="completed")
    assert run("jobs", "why", str(done.pk), "--json").json["why_waiting"] == []


@pytest.mark.req("J-06")
def test_enqueue_stores_the_job_and_prints_its_row(run: Runner, firm: Firm) -> None:
    arguments = ("--firm", "acme", "--priority", "1", "--idempotency-key", "k-1")
    first = run("jobs", "enqueue", "noop", "--delay", "3600", *arguments, "--json")
    assert first.code == 0
    assert first.json.keys() == ROW | {"created"}
    assert first.json["created"] is True
    with all_firms("test"):
        job = JobQueue.objects.get()
    assert (str(job.pk), job.priority, job.firm_id) == (first.json["job_id"], 1, firm.pk)
    assert job.scheduled_at - job.created_at > timedelta(minutes=59)
    again = run("jobs", "enqueue", "noop", *arguments, "--json")
    assert (again.json["job_id"], again.json["created"]) == (str(job.pk), False)


@pytest.mark.req("J-07", "O-06")
def test_enqueue_replaces_what_has_not_begun_and_says_so(run: Runner, firm: Firm) -> None:
    debounced = ("noop", "--idempotency-key", "K", "--on-conflict", "debounce")
    assert "delay: is required to debounce" in run("jobs", "enqueue", *debounced).err
    arguments = (*debounced, "--delay", "60")
    first = run("jobs", "enqueue", *arguments, "--unique-for", "3600", "--json")
    assert (first.json["created"], first.json["replaced"]) == (True, False)
    again = run("jobs", "enqueue", *arguments, "--max-wait", "30", "--json")
    assert (again.json["created"], again.json["replaced"]) == (False, True)
    assert again.json["job_id"] == first.json["job_id"]
    assert "was replaced; it is due " in run("jobs", "enqueue", *arguments).out


@pytest.mark.req("J-03")
@pytest.mark.req("J-07")
@pytest.mark.parametrize(
    "arguments", [("enqueue", "noop"), ("chain", '[{"job_type": "noop"}, {"job_type": "noop"}]')]
)
def test_the_key_of_a_deleted_job_is_told(
    run: Runner, firm: Firm, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    gone = EnqueueResult(UUID(NOBODYS_ID), created=False)
    for name in ("enqueue", "enqueue_chain"):
        monkeypatch.setattr(job_operations, name, lambda *args, **options: gone)
    refused = run("jobs", *arguments, "--json")
    assert (refused.code, refused.json["code"]) == (1, "wrong_state")
    assert f"job {NOBODYS_ID} had this idempotency key but was deleted" in refused.err


def test_a_refused_payload_names_each_fault(run: Runner, firm: Firm) -> None:
    payload = '{"surprise": 1, "password": "hunter2"}'
    refused = run("jobs", "enqueue", "noop", "--firm", "acme", "--payload", payload, "--json")
    assert refused.code == 1
    assert refused.json["code"] == "payload_invalid"
    assert {"field": "password", "code": "secret_key"}.items() <= refused.json["errors"][0].items()
    assert "hunter2" not in refused.out + refused.err
    unknown = run("jobs", "enqueue", "nope", "--firm", "acme")
    assert unknown.code == 1
    assert "job_type" in unknown.err
    with all_firms("test"):
        assert not JobQueue.objects.exists()


@pytest.mark.parametrize(
    "arguments",
    [("enqueue", "noop"), ("chain", '[{"job_type": "noop"}, {"job_type": "noop"}]')],
)
def test_with_several_firms_one_has_to_be_given(
    run: Runner, firm: Firm, other_firm: Firm, arguments: tuple[str, ...]
) -> None:
    refused = run("jobs", *arguments, "--json")
    assert (refused.code, refused.json["code"]) == (1, "missing_tenant")
    assert "give --firm SLUG" in refused.err
    assert "firm_scope" not in refused.err
    assert run("jobs", *arguments, "--firm", firm.slug).code == 0


def test_people_get_tables_without_terminal_codes(
    run: Runner, firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    job = JobQueueFactory(firm=firm, last_error="[red]boom[/red] \x1b[31mred\nsecond line")
    listed = run("jobs", "list").out
    assert str(job.pk) in listed
    assert "[red]boom[/red]" in listed
    assert "\x1b" not in listed
    assert "second line" not in listed
    assert str(job.pk) in run("jobs", "show", str(job.pk)).out
    assert "maintenance" in run("jobs", "stats").out
    assert "start manage.py runworker" in run("jobs", "why", str(job.pk)).out


@pytest.mark.req("J-18")
def test_a_shown_job_says_how_far_it_got(run: Runner, firm: Firm) -> None:
    job = JobQueueFactory(firm=firm, progress=0.4, progress_note="page 4 of 10")
    assert "40% page 4 of 10" in run("jobs", "show", str(job.pk)).out
    shown = run("jobs", "show", str(job.pk), "--json").json
    assert (shown["progress"], shown["progress_note"]) == (0.4, "page 4 of 10")
