"""Plain completions are one statement; those that other jobs depend on take a longer way."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs.breaker import Breaker
from jobs.engine import completions, end_attempts, transition
from jobs.engine import settle as settle_module
from jobs.engine.claim import Claim
from jobs.engine.completions import complete_plain
from jobs.engine.job_wait import wait_until_settled
from jobs.engine.outcomes import Completed, Released, Retry, Settlement
from jobs.engine.settle import settle
from jobs.execution.context import JobContext
from jobs.models import CircuitBreaker
from jobs.queue import EnqueueSpec, enqueue
from jobs.registry import JobPayload, job
from jobs.states import Status
from tenants.models import Firm
from tests.queue_kit import (
    FAILURE,
    context,
    dead_letters,
    finish,
    later,
    locks,
    minutes,
    row,
    rows,
    take,
)
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-09", "W-02")]

DONE = Completed({"n": 1})


class NamePayload(JobPayload):
    """The name by which the tests tell jobs apart."""

    name: str


def handle(payload: NamePayload, ctx: JobContext) -> None:
    """Do nothing."""


def settled(*held: Claim) -> Any:
    return settle([Settlement(one, DONE, 0.25) for one in held])


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[Claim]:
    """Return the claims that are settled in a transaction of several statements."""
    walked: list[Claim] = []
    written = settle_module.write_outcomes

    def write(settlements: Any) -> Any:
        walked.extend(one.claim for one in settlements)
        return written(settlements)

    monkeypatch.setattr(settle_module, "write_outcomes", write)
    return walked


def test_a_batch_takes_the_short_way(add: Any, long_way: list[Claim]) -> None:
    ids = [add() for _ in range(3)]
    held = take(3)
    stale = held[0]._replace(lease_token=held[0].lease_token + 1000)
    report = settled(*held[1:], stale)
    assert report.statuses == dict.fromkeys(ids[1:], Status.COMPLETED)
    assert report.stale == [stale]
    # Only the job of the stale claim has to be looked up.
    assert long_way == [stale]
    assert [(one.completed, one.run_ms) for one in minutes()] == [(2, 500)]


@postgresql_only
def test_a_batch_is_one_statement_behind_the_wall(add: Any, long_way: list[Claim]) -> None:
    ids = [add() for _ in range(3)]
    held = take(3)
    with CaptureQueriesContext(
        connection,
    ) as told:
        report = settled(*held)
    # While queries are captured, the statements are sent one by one; otherwise in one message.
    begin, opened, written, commit = (query["sql"] for query in told.captured_queries)
    assert (begin, commit) == ("BEGIN", "COMMIT")
    assert "set_config" in opened
    assert "UPDATE jobs_jobqueue" in written
    assert long_way == []
    assert report.statuses == dict.fromkeys(ids, Status.COMPLETED)


@pytest.mark.req("W-07")
def test_the_counters_of_firms_and_categories_are_added_to(
    firm: Firm, other_firm: Firm, add: Any
) -> None:
    add(), add(firm=other_firm), add("test.other")
    with later(10):
        first = take(10)
    add()
    with later(20):
        second = take(10)
    with later(60) as now:
        settled(*first)
        settled(*second)
    figures = {
        (one.firm_id, one.category): (one.completed, one.run_ms, 9_000 < one.wait_ms < 40_000)
        for one in minutes()
    }
    assert figures == {
        (firm.pk, "sync"): (2, 500, True),
        (firm.pk, "export"): (1, 250, True),
        (other_firm.pk, "sync"): (1, 250, True),
    }
    assert {one.minute for one in minutes()} == {now.replace(second=0, microsecond=0)}


def test_a_late_one_among_them_changes_nothing_and_is_told(add: Any) -> None:
    late_id, good_id = add(), add()
    late, good = sorted(take(2), key=lambda one: one.job_id != late_id)
    finish(late, Released("taken away"))
    (current,) = take(1)
    report = settled(late, good)
    assert report.stale == [late]
    assert report.statuses == {good_id: Status.COMPLETED}
    assert row(late_id).lease_token == current.lease_token
    assert sum(one.completed for one in minutes()) == 1


def test_what_was_written_before_its_answer_was_lost_is_known_and_not_counted_twice(
    add: Any,
) -> None:
    add()
    (held,) = take(1)
    settled(held)
    again = settled(held)
    assert again.before == {held.lease_token: Status.COMPLETED}
    assert again.stale == []
    assert sum(one.completed for one in minutes()) == 1


def test_a_lock_is_given_back(add: Any, long_way: list[Claim]) -> None:
    add("test.locked", "key")
    held = take(1)
    report = settled(*held)
    assert locks() == []
    assert long_way == held
    assert report.released_capacity.keys == {(held[0].firm_id, "key")}


@pytest.mark.req("A-02")
def test_the_last_child_fires_what_waited_for_it(firm: Firm, job_types: None) -> None:
    job("test.parent", category="sync", payload=NamePayload)(handle)
    enqueue("test.parent", {"name": "x"}, firm=firm)
    (held,) = take(1)
    child = EnqueueSpec("test.parent", {"name": "child"})
    (made,) = context(held).enqueue_many([child], then=("test.parent", {"name": "then"}))
    settled(held)
    (young,) = take(5)
    assert young.job_id == made.job_id
    settled(young)
    (then,) = take(5)
    assert '"then"' in then.payload


@pytest.mark.req("A-02")
def test_beside_a_fan_in_only_its_own_children_take_the_long_way(
    firm: Firm, add: Any, long_way: list[Claim]
) -> None:
    add()
    (held,) = take(1)
    child = EnqueueSpec("test.work", {"name": "child"})
    (made,) = context(held).enqueue_many([child], then=("test.work", {"name": "then"}))
    others = [add() for _ in range(3)]
    claims = take(9)
    report = settled(*claims)
    assert report.statuses == dict.fromkeys([made.job_id, *others], Status.COMPLETED)
    assert [one.job_id for one in long_way] == [made.job_id]


@pytest.mark.req("O-07")
def test_a_breaker_hears_of_it(firm: Firm, job_types: None, long_way: list[Claim]) -> None:
    job("test.broken", category="sync", payload=NamePayload, breaker=Breaker())(handle)
    enqueue("test.broken", {"name": "x"}, firm=firm)
    enqueue("test.broken", {"name": "y"}, firm=firm)
    first, second = take(2)
    finish(first, Retry(60, FAILURE))
    settled(second)
    assert second in long_way
    (circuit,) = rows(CircuitBreaker)
    assert circuit.attempts == 2


def test_a_result_the_database_refuses_costs_its_neighbours_nothing(
    add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [add(), add()]
    held = take(2)
    bad = Completed({"text": "\ud800"})
    for module in (completions, transition):
        monkeypatch.setattr(module, "result_json", _spell)
    report = settle([Settlement(held[0], DONE, 1), Settlement(held[1], bad, 1)])
    assert report.statuses == {ids[0]: Status.COMPLETED, ids[1]: Status.DLQ}
    assert [one.original_job_id for one in dead_letters()] == [ids[1]]


def _spell(completed: Completed) -> str:
    # No database takes the first text for JSON.
    return "{broken" if "text" in completed.result else '{"n":1}'


def test_inside_a_transaction_it_stays_in_it(add: Any) -> None:
    job_id = add()
    (held,) = take(1)
    with transaction.atomic():
        assert complete_plain([Settlement(held, DONE, 0.1)]) == set()
        settled(held)
        transaction.set_rollback(True)
    assert row(job_id).status == "claimed"


def test_whoever_waits_for_it_is_told(add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    for module in (settle_module, end_attempts):
        monkeypatch.setattr(module, "notify_settled", told.extend)
    job_id = add()
    settled(*take(1))
    assert told == [job_id]
    assert wait_until_settled(job_id, 5).status == Status.COMPLETED
