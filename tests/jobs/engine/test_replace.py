"""An enqueue whose key is taken replaces or puts off the job that has it, unless that has begun."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.engine.outcomes import Canceled, Completed, Released, Retry, Snoozed
from jobs.engine.rescue import rescue_reported
from jobs.engine.steps import save_step
from jobs.errors import PayloadInvalid
from jobs.models import JobQueue
from jobs.queue import EnqueueResult, EnqueueSpec, enqueue, enqueue_many, retry
from tests.queue_kit import FAILURE, finish, later, new_worker, row, rows, take, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-07")]


def put(firm: Any, name: str, job_type: str = "test.work", **options: Any) -> EnqueueResult:
    options = {"idempotency_key": "key", "on_conflict": "replace"} | options
    return enqueue(job_type, {"name": name}, firm=firm, **options)


def test_the_waiting_job_gets_the_new_contents_and_keeps_its_place_and_time(firm: Any) -> None:
    first = put(firm, "first", delay=60, correlation_id="one")
    before = first.job
    again = put(firm, "again", delay=900, priority=0, max_attempts=9, correlation_id="two")
    assert (first.created, first.replaced) == (True, False)
    assert (again.created, again.replaced, again.job_id) == (False, True, first.job_id)
    (after,) = rows(JobQueue)
    assert (after.payload["name"], after.payload["correlation_id"]) == ("again", "two")
    assert (after.priority, after.max_attempts, after.correlation_id) == (0, 9, "two")
    assert (after.scheduled_at, after.created_at) == (before.scheduled_at, before.created_at)
    assert after.ready


def test_a_job_beside_it_that_may_replace_nothing_replaces_nothing(firm: Any) -> None:
    put(firm, "kept")
    plain = EnqueueSpec("test.work", {"name": "new"}, idempotency_key="key")
    other = {"idempotency_key": "other", "on_conflict": "replace"}
    results = enqueue_many([plain, EnqueueSpec("test.work", **other)], firm=firm)
    assert [(one.created, one.replaced) for one in results] == [(False, False), (True, False)]
    assert row(results[0].job_id).payload["name"] == "kept"


@pytest.mark.usefixtures("stopped_clock")
def test_a_debounced_job_runs_when_it_was_quiet_but_never_later_than_allowed(firm: Any) -> None:
    options = {"on_conflict": "debounce", "delay": 60, "max_wait": timedelta(seconds=100)}
    first = put(firm, "first", **options)
    begun = first.job.created_at
    for seconds, due in ((30, 90), (80, 100), (95, 100)):
        with later(seconds):
            again = put(firm, f"at {seconds}", **options)
        assert again.replaced
        found = row(first.job_id)
        assert found.payload["name"] == f"at {seconds}"
        assert (found.scheduled_at - begun).total_seconds() == pytest.approx(due, abs=1)
    with later(99):
        assert take() == []
    with later(101):
        assert [claim.job_id for claim in take()] == [first.job_id]


def test_without_a_limit_it_is_put_off_for_as_long_as_it_goes_on(firm: Any) -> None:
    first = put(firm, "first", on_conflict="debounce", delay=60)
    with later(1000):
        put(firm, "again", on_conflict="debounce", delay=60)
    assert (row(first.job_id).scheduled_at - first.job.created_at).total_seconds() > 1000


@pytest.mark.parametrize("now", [{"delay": 0}, {"at": datetime(2020, 1, 1, tzinfo=UTC)}])
def test_a_debounced_job_is_due_at_once_if_the_call_says_so(firm: Any, now: Any) -> None:
    first = put(firm, "first", on_conflict="debounce", delay=3600)
    assert take() == []
    put(firm, "again", on_conflict="debounce", **now)
    assert [claim.job_id for claim in take()] == [first.job_id]


@pytest.mark.parametrize(
    "outcome",
    [None, Retry(1, FAILURE), Snoozed(delay_seconds=1), Completed({}), Canceled("no")],
    ids=["claimed", "retried", "snoozed", "completed", "canceled"],
)
@pytest.mark.parametrize("on_conflict", ["replace", "debounce"])
def test_what_has_begun_is_never_changed(firm: Any, outcome: Any, on_conflict: Any) -> None:
    first = put(firm, "first", unique_for=3600)
    held = take_one()
    if outcome is not None:
        finish(held, outcome)
    before = row(first.job_id)
    again = put(firm, "again", on_conflict=on_conflict, delay=0, unique_for=3600)
    assert (again.job_id, again.created, again.replaced) == (first.job_id, False, False)
    after = row(first.job_id)
    assert (after.payload, after.updated_at) == (before.payload, before.updated_at)


def test_a_job_that_an_operator_started_again_is_not_changed(firm: Any) -> None:
    first = put(firm, "first")
    finish(take_one(), Canceled("no"))
    retry(first.job_id)
    assert not put(firm, "again").replaced


def test_a_claim_given_back_unused_has_not_begun(firm: Any) -> None:
    first = put(firm, "first")
    finish(take_one(), Released("the worker stops"), ran_seconds=None)
    assert row(first.job_id).status == "pending"
    assert put(firm, "again").replaced


@pytest.mark.req("J-18")
def test_a_job_with_a_finished_step_has_begun_although_its_attempt_was_given_back(
    firm: Any,
) -> None:
    first = put(firm, "first")
    held = take_one(new_worker())
    save_step(held, "charge", 5)
    # The worker was killed between the end of its handler and the storing of the outcome.
    rescue_reported(held.worker_id, (), Random(1))
    assert (row(first.job_id).status, row(first.job_id).attempts) == ("pending", 0)
    assert not put(firm, "again").replaced
    assert row(first.job_id).payload["name"] == "first"


def test_a_job_of_another_type_is_not_changed(firm: Any) -> None:
    first = put(firm, "first")
    again = put(firm, "again", "test.other")
    assert (again.job_id, again.replaced) == (first.job_id, False)


def test_the_lock_key_follows_the_payload_and_its_slot_is_free(firm: Any) -> None:
    first = put(firm, "a", "test.locked")
    assert row(first.job_id).ready
    other = enqueue("test.locked", {"name": "a"}, firm=firm)
    assert row(other.job_id).waiting
    put(firm, "b", "test.locked")
    moved, freed = row(first.job_id), row(other.job_id)
    assert (moved.lock_key, moved.ready, freed.ready) == ("b", True, True)


def test_of_many_with_one_key_the_last_stands(firm: Any) -> None:
    specs = [
        EnqueueSpec("test.work", {"name": name}, idempotency_key="key", on_conflict="replace")
        for name in "abc"
    ]
    results = enqueue_many([*specs, EnqueueSpec("test.work")], firm=firm)
    assert [(one.created, one.replaced) for one in results] == [
        (True, False),
        (False, True),
        (False, True),
        (True, False),
    ]
    assert row(results[0].job_id).payload["name"] == "c"


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer")
def test_a_job_is_not_claimed_while_it_is_replaced(firm: Any) -> None:
    def claim_elsewhere() -> list[Any]:
        try:
            return take()
        finally:
            connection.close()

    put(firm, "first")
    with transaction.atomic(), ThreadPoolExecutor(1) as threads:
        assert put(firm, "again").replaced
        assert threads.submit(claim_elsewhere).result(60) == []
    assert take_one().payload.count("again") == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"on_conflict": "merge"}, "on_conflict"),
        ({"idempotency_key": None}, "on_conflict"),
        ({"max_wait": 5}, "max_wait"),
        ({"on_conflict": "debounce"}, "delay"),
        ({"on_conflict": "debounce", "max_wait": 5}, "delay"),
        ({"on_conflict": "debounce", "delay": 5, "max_wait": 0}, "max_wait"),
    ],
)
def test_an_impossible_request_is_refused(firm: Any, options: Any, field: str) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        put(firm, "x", **options)
    assert [fault.field for fault in refused.value.faults] == [field]
