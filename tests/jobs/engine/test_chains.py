"""Chains: each job is enqueued when the one before it is completed, and only then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from jobs.engine import fan_in
from jobs.engine.chains import LONGEST_CHAIN
from jobs.engine.clock import database_now
from jobs.engine.delete_owned import delete_jobs
from jobs.engine.fan_in import sweep_fan_ins
from jobs.engine.outcomes import Canceled, Completed, DeadLettered, Outcome, Retry, Snoozed
from jobs.engine.prune import prune
from jobs.engine.transactions import in_transaction
from jobs.errors import ArgumentsInvalid, PayloadInvalid
from jobs.models import FanIn, FanInMember, JobQueue
from jobs.queries.job_detail import JobDetails, details_of
from jobs.queue import EnqueueResult, EnqueueSpec, cancel, enqueue, enqueue_chain, reprocess, retry
from jobs.registry import JobPayload, job
from jobs.states import DeadReason, Priority
from jobs.testing import drain
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.tenants import UserFactory
from tests.queue_kit import (
    FAILURE,
    change,
    context,
    dead_letters,
    finish,
    later,
    row,
    rows,
    take,
    take_one,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-02")]

DONE = Completed({})
DEAD = DeadLettered(DeadReason.FATAL, FAILURE)


class NamePayload(JobPayload):
    """The payload of the jobs of a chain."""

    name: str = ""


@pytest.fixture(autouse=True)
def ran(job_types: dict[str, Any]) -> list[str]:
    """Declare the types of a chain's jobs; return the names of those that ran."""
    names: list[str] = []

    @job("test.link", category="sync", payload=NamePayload)
    def link(payload: NamePayload, ctx: Any) -> None:
        names.append(payload.name)

    @job("test.link_once", category="sync", payload=NamePayload, once_only=True)
    def once(payload: NamePayload, ctx: Any) -> None:
        names.append(payload.name)

    return names


def link(name: str, **options: Any) -> EnqueueSpec:
    return EnqueueSpec("test.link", {"name": name}, **options)


def chain(firm: Firm, *names: str) -> EnqueueResult:
    return enqueue_chain([link(name) for name in names], firm=firm)


def names() -> list[str]:
    return [one.payload["name"] for one in rows(JobQueue)]


def end(name: str, outcome: Outcome = DONE) -> UUID:
    held = take_one()
    assert row(held.job_id).payload["name"] == name
    finish(held, outcome)
    return held.job_id


def test_they_run_one_after_the_other(firm: Firm, ran: list[str]) -> None:
    first = chain(firm, "a", "b", "c")
    assert first.created
    assert names() == ["a"]
    end("a")
    assert names() == ["a", "b"]
    end("b")
    end("c")
    assert names() == ["a", "b", "c"]
    assert take() == []
    a, b, c = rows(JobQueue)
    assert (a.pk, b.parent_id, c.parent_id) == (first.job_id, a.pk, b.pk)
    assert a.correlation_id == b.correlation_id == c.correlation_id
    assert [one.then_job_id for one in rows(FanIn)] == [b.pk, c.pk]
    assert rows(FanInMember) == []


def test_each_may_have_a_correlation_id_of_its_own(firm: Firm, ran: list[str]) -> None:
    specs = [
        link("a", correlation_id="order-1"),
        link("b", correlation_id="order-2"),
        EnqueueSpec("test.link", {"name": "c", "correlation_id": "order-3"}),
        link("d"),
    ]
    enqueue_chain(specs, firm=firm)
    for name in "abcd":
        end(name)
    found = [(one.correlation_id, one.payload["correlation_id"]) for one in rows(JobQueue)]
    assert found == [(own, own) for own in ("order-1", "order-2", "order-3", "order-1")]
    with pytest.raises(PayloadInvalid) as refused:
        enqueue_chain([link("a"), link("b", correlation_id=7)], firm=firm)
    assert [fault.field for fault in refused.value.faults] == ["jobs.1.correlation_id"]


def test_each_keeps_its_own_options(firm: Firm) -> None:
    user = UserFactory(username="ada")
    enqueue_chain(
        [
            link("a"),
            link(
                "b",
                user=user,
                delay=timedelta(minutes=5),
                priority=Priority.HIGH,
                max_attempts=7,
                lock_key="lock",
                limit_key="limit",
                idempotency_key="key",
                unique_for=3600,
            ),
            link("c", user=user, delay=60),
        ],
        firm=firm,
    )
    end("a")
    b = rows(JobQueue)[1]
    assert (b.user_id, b.priority, b.max_attempts) == (user.pk, Priority.HIGH, 7)
    assert (b.lock_key, b.limit_key, b.idempotency_key) == ("lock", "limit", "key")
    assert timedelta(minutes=4) < b.scheduled_at - database_now() <= timedelta(minutes=5)
    change(b.pk, scheduled_at=database_now(), waiting=False, ready=True, admitted=True)
    end("b")
    c = rows(JobQueue)[2]
    assert c.user_id == user.pk
    assert timedelta(seconds=30) < c.scheduled_at - database_now() <= timedelta(minutes=1)


@pytest.mark.parametrize(
    "outcome", [Retry(0, FAILURE), Snoozed(None, 1e-6)], ids=lambda o: type(o).__name__
)
def test_one_that_goes_round_again_is_waited_for(firm: Firm, outcome: Outcome) -> None:
    chain(firm, "a", "b")
    end("a", outcome)
    assert names() == ["a"]
    end("a")
    assert names() == ["a", "b"]


@pytest.mark.req("D-02")
def test_a_dead_letter_stops_it_and_its_reprocessing_resumes_it(firm: Firm) -> None:
    chain(firm, "a", "b")
    end("a", DEAD)
    assert sweep_fan_ins(None) is None
    assert names() == ["a"]
    (letter,) = dead_letters()
    reprocess(letter.pk)
    end("a")
    assert names() == ["a", "b"]


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_cancellation_stops_it_and_a_retry_resumes_it(firm: Firm, in_flight: bool) -> None:
    first = chain(firm, "a", "b").job_id
    if in_flight:
        end("a", Canceled("not wanted"))
    else:
        cancel(first)
    assert sweep_fan_ins(None) is None
    assert names() == ["a"]
    retry(first)
    end("a")
    assert names() == ["a", "b"]


def test_the_sweep_resumes_what_was_completed_without_notice(firm: Firm) -> None:
    first = chain(firm, "a", "b").job_id
    change(first, status="completed", ready=False, completed_at=database_now())
    assert sweep_fan_ins(None) is None
    assert names() == ["a", "b"]


@pytest.mark.req("J-22")
def test_a_completed_job_is_not_purged_before_what_follows_it_is_enqueued(firm: Firm) -> None:
    first = chain(firm, "a", "b").job_id
    change(first, status="completed", ready=False, completed_at=database_now())
    with later(400 * 86_400):
        with all_firms("test"):
            prune(firm)
        assert sweep_fan_ins(None) is None
        assert names() == ["a", "b"]
        with all_firms("test"):
            prune(firm)
    assert names() == ["b"]


def test_it_goes_with_the_job_that_stopped_it(firm: Firm) -> None:
    first = chain(firm, "a", "b", "c").job_id
    cancel(first)
    with later(400 * 86_400), all_firms("test"):
        prune(firm)
    assert (names(), rows(FanIn), rows(FanInMember)) == ([], [], [])


def test_it_goes_with_a_deleted_job(firm: Firm) -> None:
    first = chain(firm, "a", "b").job_id
    in_transaction(lambda: delete_jobs([(first, firm.pk)]))
    assert sweep_fan_ins(None) is None
    assert (names(), rows(FanIn), rows(FanInMember)) == ([], [], [])


@pytest.mark.req("J-06")
def test_nothing_is_stored_where_the_first_ones_key_is_taken(firm: Firm) -> None:
    specs = [link("a", idempotency_key="k"), link("b")]
    first = enqueue_chain(specs, firm=firm)
    again = enqueue_chain(specs, firm=firm)
    assert (again.job_id, again.created) == (first.job_id, False)
    end("a")
    assert names() == ["a", "b"]


@pytest.mark.req("J-06")
@pytest.mark.parametrize("on_conflict", ["replace", "debounce"])
def test_a_chain_that_replaces_the_first_one_replaces_what_follows_it(
    firm: Firm, on_conflict: str
) -> None:
    def begin(*followers: str) -> EnqueueResult:
        key = {"idempotency_key": "k", "on_conflict": on_conflict}
        first = link("-".join(("a", *followers)), delay=0, **key)
        return enqueue_chain([first, *map(link, followers)], firm=firm)

    first = begin("b", "c")
    assert begin("d", "e") == EnqueueResult(first.job_id, created=False, replaced=True)
    end("a-d-e")
    end("d")
    assert names() == ["a-d-e", "d", "e"]


@pytest.mark.req("J-06")
def test_a_replaced_job_that_has_begun_keeps_what_follows_it(firm: Firm) -> None:
    key = {"idempotency_key": "k", "on_conflict": "replace"}
    enqueue_chain([link("a", **key), link("b")], firm=firm)
    held = take_one()
    again = enqueue_chain([link("x", **key), link("y")], firm=firm)
    assert (again.created, again.replaced) == (False, False)
    finish(held, DONE)
    assert names() == ["a", "b"]


@pytest.mark.req("J-06")
def test_a_replaced_job_within_a_chain_is_followed_by_both(firm: Firm) -> None:
    enqueue_chain([link("a"), link("b", idempotency_key="k"), link("c")], firm=firm)
    end("a")
    first = link("x", idempotency_key="k", on_conflict="replace")
    assert enqueue_chain([first, link("y")], firm=firm).replaced
    end("x")
    assert sorted(names()) == ["a", "c", "x", "y"]


@pytest.mark.req("J-06")
def test_a_job_with_the_key_of_a_later_one_stands_in_for_it(firm: Firm) -> None:
    enqueue_chain([link("a"), link("b", idempotency_key="k"), link("c")], firm=firm)
    held = take_one()
    other = enqueue("test.link", {"name": "other"}, firm=firm, idempotency_key="k").job_id
    finish(held, DONE)
    assert names() == ["a", "other"]
    assert end("other") == other
    assert names() == ["a", "other", "c"]


@pytest.mark.req("J-06")
def test_a_completed_job_with_the_key_of_a_later_one_does_not_stop_it(firm: Firm) -> None:
    once = EnqueueSpec("test.link_once", {"name": "b"}, idempotency_key="k")
    enqueue("test.link_once", {"name": "b"}, firm=firm, idempotency_key="k")
    end("b")
    enqueue_chain([link("a"), once, once, link("c")], firm=firm)
    end("a")
    assert names() == ["b", "a", "c"]


@pytest.mark.req("J-06")
def test_a_dead_letter_with_the_key_of_a_later_one_stops_it_until_it_is_completed(
    firm: Firm,
) -> None:
    once = EnqueueSpec("test.link_once", {"name": "b"}, idempotency_key="k")
    enqueue("test.link_once", {"name": "b"}, firm=firm, idempotency_key="k")
    end("b", DEAD)
    enqueue_chain([link("a"), once, link("c")], firm=firm)
    end("a")
    assert names() == ["b", "a"]
    reprocess(dead_letters()[0].pk)
    end("b")
    assert names() == ["b", "a", "c"]


def test_the_sweep_reads_one_chunk_after_the_other(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_in, "SWEEP_CHUNK", 1)
    for first in ("a", "b"):
        job_id = chain(firm, first, f"after {first}").job_id
        change(job_id, status="completed", ready=False, completed_at=database_now())
    after = sweep_fan_ins(None)
    assert names() == ["a", "b", "after a"]
    while after is not None:
        after = sweep_fan_ins(after)
    assert names() == ["a", "b", "after a", "after b"]


def test_it_rolls_back_with_its_caller(firm: Firm) -> None:
    with transaction.atomic():
        chain(firm, "a", "b")
        transaction.set_rollback(True)
    assert (rows(JobQueue), rows(FanIn), rows(FanInMember)) == ([], [], [])


def test_one_that_is_refused_refuses_all(firm: Firm) -> None:
    with pytest.raises(PayloadInvalid, match="name"):
        enqueue_chain([link("a"), EnqueueSpec("test.link", {"name": 1})], firm=firm)
    assert rows(JobQueue) == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"at": "2999-01-01"}, "jobs.1.at"),
        ({"expires_at": "2999-01-01"}, "jobs.1.expires_at"),
        ({"on_conflict": "replace"}, "jobs.1.on_conflict"),
        ({"max_wait": 5}, "jobs.1.max_wait"),
    ],
)
def test_what_is_for_the_first_is_refused(firm: Firm, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ArgumentsInvalid) as refusal:
        enqueue_chain([link("a"), link("b", **options)], firm=firm)
    assert [fault.field for fault in refusal.value.faults] == [field]


@pytest.mark.parametrize("length", [0, LONGEST_CHAIN + 1])
def test_its_length_is_bounded(firm: Firm, length: int) -> None:
    with pytest.raises(ArgumentsInvalid, match="must be 1 to 100 jobs"):
        enqueue_chain([link("a")] * length, firm=firm)


@pytest.mark.req("J-27")
def test_the_test_kit_runs_it_to_its_end(firm: Firm, ran: list[str]) -> None:
    chain(firm, *"abcde")
    drain()
    assert ran == list("abcde")


def details(job_id: UUID) -> JobDetails:
    with all_firms("test"):
        return details_of(row(job_id))


@pytest.mark.req("O-03")
def test_a_jobs_details_say_what_comes_then(firm: Firm) -> None:
    first = chain(firm, "a", "b", "c").job_id
    (then,) = details(first).then
    assert then.sentence == "test.link, then test.link when this job is completed"
    end("a")
    assert details(first).then == []
    second = rows(JobQueue)[1]
    assert [one.job_types for one in details(second.pk).then] == [["test.link"]]


@pytest.mark.req("O-03")
def test_a_jobs_details_say_what_follows_its_children(firm: Firm) -> None:
    parent = enqueue("test.link", {"name": "parent"}, firm=firm).job_id
    children = [link("x"), link("y")]
    context(take_one()).enqueue_many(children, then=("test.link", {"name": "sum"}))
    (then,) = details(parent).then
    assert then.sentence == "test.link when 2 jobs are settled"
