"""`dlq groups`, `dlq bulk`, `jobs bulk`, `bulk list|show|stop`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from jobs.models import BulkRun, DeadLetterQueue, Pause
from jobs.queue import pause
from jobs.testing import drain
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import UserFactory
from tests.queue_kit import change, row, rows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("D-03", "O-04")]

Runner = Callable[..., Any]


@pytest.fixture
def letters(firm: Firm) -> list[Any]:
    return [
        DeadLetterQueueFactory(
            original_job=JobQueueFactory(firm=firm, status="dlq"),
            fingerprint=fingerprint,
            error_class="Boom",
        )
        for fingerprint in ("aaaa", "aaaa", "bbbb")
    ]


def test_groups_are_listed(run: Runner, letters: list[Any]) -> None:
    out = run("dlq", "groups").out
    assert "aaaa" in out
    assert "Boom" in out
    groups = run("dlq", "groups", "--json").json["results"]
    assert [(group["fingerprint"], group["count"]) for group in groups] == [
        ("aaaa", 2),
        ("bbbb", 1),
    ]


def test_a_group_is_counted_then_reprocessed(run: Runner, letters: list[Any]) -> None:
    chosen = ("dlq", "bulk", "reprocess", "--firm", "acme", "--fingerprint", "aaaa")
    counted = run(*chosen).out
    assert "reprocess: 2. Nothing was done" in counted
    assert "less frequent" not in counted
    assert run(*chosen, "--json").json["count"] == 2
    started = run(*chosen, "--start", "--reason", "mended", "--json").json
    assert (started["state"], started["total"], started["started_by"][:4]) == ("running", 2, "cli:")
    told = run("bulk", "show", started["id"]).out
    assert "Its job is waiting: no worker is alive" in told
    assert re.search("selection +fingerprint: ", told)
    assert "canary" not in told
    drain()
    shown = run("bulk", "show", started["id"], "--json").json
    assert (shown["state"], shown["done"]) == ("completed", 2)
    assert "completed" in run("bulk", "show", started["id"]).out
    assert "completed" in run("bulk", "list").out
    assert [row(one.original_job_id).series for one in letters] == [2, 2, 1]
    again = run("bulk", "stop", started["id"], "--json")
    assert (again.code, again.json["code"]) == (1, "wrong_state")


@pytest.mark.req("J-01")
def test_those_of_a_user_are_chosen(run: Runner, letters: list[Any]) -> None:
    ann = UserFactory(username="ann")
    change(letters[2].original_job_id, user_id=ann.pk)
    chosen = ("dlq", "bulk", "discard", "--firm", "acme", "--user", "Ann")
    assert run(*chosen, "--json").json["count"] == 1
    run(*chosen, "--start", "--reason", "left", "--json")
    drain()
    assert [letter.resolution for letter in rows(DeadLetterQueue)] == ["", "", "discarded"]
    assert run(*chosen[:-1], "nobody", "--json").code != 0


def test_what_the_list_finds_by_search_or_decision_is_chosen(
    run: Runner, letters: list[Any]
) -> None:
    with all_firms("test"):
        DeadLetterQueue.objects.filter(pk=letters[2].pk).update(error="no such street")
        DeadLetterQueue.objects.filter(pk=letters[0].pk).update(resolution="escalated")
    chosen = ("dlq", "bulk", "discard", "--firm", "acme")
    for options, number in (
        (["--search", "error:street"], 1),
        (["--status", "escalated"], 1),
        (["--status", "open"], 3),
        (["--status", "escalated", "--search", "error:street"], 0),
    ):
        assert run(*chosen, *options, "--json").json["count"] == number
        listed = run("dlq", "list", "--firm", "acme", *options, "--json").json["results"]
        assert len(listed) == number
    run(*chosen, "--search", "error:street", "--start", "--reason", "gone", "--json")
    drain()
    kept = {letter.pk: letter.resolution for letter in rows(DeadLetterQueue)}
    assert [kept[letter.pk] for letter in letters] == ["escalated", "", "discarded"]


@pytest.mark.parametrize(
    "what",
    [
        ("jobs", "bulk", "cancel", "--search"),
        ("jobs", "bulk", "cancel", "--error"),
        ("jobs", "bulk", "cancel", "--limit-key"),
        ("jobs", "bulk", "cancel", "--type"),
        ("jobs", "bulk", "cancel", "--correlation-id"),
        ("jobs", "bulk", "cancel", "--user"),
        ("dlq", "bulk", "reprocess", "--search"),
        ("pauses", "add", "--reason", "stop", "--limit-key"),
        ("pauses", "add", "--reason", "stop", "--type"),
    ],
    ids=" ".join,
)
def test_a_filter_that_is_empty_is_refused_and_chooses_nothing(
    run: Runner, firm: Firm, what: tuple[str, ...]
) -> None:
    job = JobQueueFactory(firm=firm)
    for empty in ("", " "):
        refused = run(*what, empty, "--firm", "acme", *["--start"] * (what[1] == "bulk"))
        assert (refused.code, "is empty" in refused.err) == (2, True)
    assert (rows(BulkRun), rows(Pause), row(job.pk).status) == ([], [], "pending")


def test_it_says_that_there_are_more_causes(
    run: Runner, letters: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.queries.bulk.CAUSES_SHOWN", 1)
    said = run("dlq", "bulk", "reprocess", "--firm", "acme", "--all").out
    assert "and 1 less frequent cause\n" in said


def test_a_canary_is_smaller_than_its_run(run: Runner, letters: list[Any]) -> None:
    chosen = ("dlq", "bulk", "reprocess", "--firm", "acme", "--all", "--start", "--canary")
    refused = run(*chosen, "3", "--json")
    assert (refused.code, refused.json["code"]) == (1, "bulk_invalid")
    assert "canary: must be less than the 3 rows of the run" in run(*chosen, "3").err
    assert "canary: must be less than the 3 rows of the run" in run(*chosen).err  # 50
    assert run(*chosen, "2", "--json").json["canary"]["size"] == 2


def test_jobs_are_canceled_in_bulk_and_the_run_is_stopped(run: Runner, firm: Firm) -> None:
    jobs = [JobQueueFactory(firm=firm) for _ in range(2)]
    what = (
        "jobs",
        "bulk",
        "cancel",
        "--everywhere",
        "--id",
        str(jobs[0].pk),
        "--id",
        str(jobs[1].pk),
    )
    started = run(*what, "--start", "--json").json
    assert (
        run("bulk", "stop", started["id"], "--reason", "no").out.count("0 of 2 were handled") == 1
    )
    drain()
    assert {row(one.pk).status for one in jobs} == {"completed"}


def test_jobs_are_chosen_by_every_filter_of_their_list(run: Runner, firm: Firm) -> None:
    def count(*filters: str) -> Any:
        return run("jobs", "bulk", "cancel", "--firm", "acme", *filters, "--json").json["count"]

    pause(category="documents", firm=firm, reason="x")
    job = JobQueueFactory(firm=firm, category="documents", limit_key="box", correlation_id="c-2")
    JobQueueFactory(firm=firm)
    for filters in (
        ("--held-back", "paused"),
        ("--limit-key", "box"),
        ("--correlation-id", "c-2"),
        ("--search", str(job.pk)),
    ):
        assert count(*filters) == 1, filters
    assert count("--limit-key", "other") == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("dlq", "bulk", "reprocess", "--all"), 2),
        (("dlq", "bulk", "reprocess", "--firm", "acme"), 2),
        (("dlq", "bulk", "reprocess", "--firm", "acme", "--all", "--type", "noop"), 2),
        (("dlq", "bulk", "retry", "--firm", "acme", "--all"), 2),
        (("dlq", "bulk", "discard", "--firm", "acme", "--all", "--start"), 1),
        (("dlq", "bulk", "reprocess", "--firm", "acme", "--all", "--rate", "-1"), 1),
        (("jobs", "bulk", "set-priority", "--firm", "acme", "--all"), 2),
        (("jobs", "bulk", "set_priority", "--firm", "acme", "--all"), 1),
        (("jobs", "bulk", "retry", "--firm", "acme", "--id", "x"), 2),
        (("dlq", "bulk", "reprocess", "--firm", "nowhere", "--all"), 3),
        (("bulk", "show", "0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_refusals_have_their_exit_codes(
    run: Runner, letters: list[Any], arguments: tuple[str, ...], code: int
) -> None:
    assert run(*arguments).code == code
