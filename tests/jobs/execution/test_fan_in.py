"""A fan-in is enqueued once, when all of its members are settled."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from random import Random
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs.engine import steps
from jobs.engine.claim import Claim
from jobs.engine.clock import database_now
from jobs.engine.fan_in import sweep_fan_ins
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
)
from jobs.engine.prune import expire, prune
from jobs.engine.rescue import rescue
from jobs.engine.settle import settle
from jobs.errors import ArgumentsInvalid, Fatal, LeaseLost, PayloadInvalid
from jobs.execution.context import JobContext, Signals
from jobs.execution.executor import execute
from jobs.models import FanIn, FanInMember, JobQueue
from jobs.queue import EnqueueSpec, cancel, enqueue, reprocess
from jobs.registry import job
from jobs.states import DeadReason
from tenants.models import Firm
from tenants.scope import all_firms
from tests.jobs.execution.conftest import NamePayload
from tests.queue_kit import (
    FAILURE,
    change,
    dead_letters,
    finish,
    later,
    new_worker,
    row,
    rows,
    take,
    take_one,
    take_started,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-02")]
committed = pytest.mark.django_db(transaction=True)

THEN = ("test.then", {"name": "sum"})
DEAD = DeadLettered(DeadReason.FATAL, FAILURE)
DONE = Completed({})


def child(name: str = "", **options: Any) -> EnqueueSpec:
    return EnqueueSpec("test.child", {"name": name}, **options)


def fan_out(ctx: JobContext, *specs: EnqueueSpec) -> list[UUID]:
    return [result.job_id for result in ctx.enqueue_many(specs, then=THEN)]


def then_jobs() -> list[JobQueue]:
    return [one for one in rows(JobQueue) if one.job_type == "test.then"]


def settle_one(job_id: UUID, outcome: Outcome = DONE) -> None:
    held = {claimed.job_id: claimed for claimed in take()}
    finish(held.pop(job_id), outcome)
    for other in held.values():
        finish(other, Released("not its turn"))


def test_it_runs_after_the_last_child_and_belongs_to_the_parent(ctx: JobContext) -> None:
    first, second = fan_out(ctx, child("a"), child("b"))
    settle_one(first)
    assert then_jobs() == []
    settle_one(second)
    (then,) = then_jobs()
    assert (then.parent_id, then.correlation_id) == (ctx.job_id, ctx.correlation_id)
    assert (then.firm_id, then.payload["name"], then.status) == (ctx.firm_id, "sum", "pending")
    (fan_in,) = rows(FanIn)
    assert (fan_in.then_job_id, fan_in.parent_id) == (then.pk, ctx.job_id)
    assert fan_in.fired_at is not None
    assert rows(FanInMember) == []


@pytest.mark.parametrize(
    "outcome",
    [
        DONE,
        DEAD,
        DeadLettered(DeadReason.EXHAUSTED, FAILURE, to_review=False),
        Canceled("not wanted"),
    ],
    ids=["completed", "dlq", "failed", "canceled"],
)
def test_every_settled_status_counts(ctx: JobContext, outcome: Outcome) -> None:
    (only,) = fan_out(ctx, child())
    settle_one(only, outcome)
    assert len(then_jobs()) == 1


@pytest.mark.parametrize(
    "outcome",
    [Retry(0, FAILURE), Snoozed(None, 1e-6), Released("stopped")],
    ids=lambda o: type(o).__name__,
)
def test_a_child_that_goes_round_again_is_waited_for(ctx: JobContext, outcome: Outcome) -> None:
    (only,) = fan_out(ctx, child())
    settle_one(only, outcome)
    assert then_jobs() == []
    settle_one(only)
    assert len(then_jobs()) == 1


def test_children_settled_in_one_batch_fire_once(ctx: JobContext) -> None:
    children = fan_out(ctx, *[child()] * 5)
    held = take()
    assert {one.job_id for one in held} == set(children)
    settle([Settlement(one, DONE, 0.1) for one in held])
    assert len(then_jobs()) == 1


def canceled(job_id: UUID) -> None:
    assert cancel(job_id).status == "canceled"


def expired(job_id: UUID) -> None:
    with later(120):
        assert expire() == 1


def rescued_to_the_dead(job_id: UUID) -> None:
    change(job_id, max_attempts=1)
    take_started(new_worker())
    with later(120):
        rescue(Random(1))
    assert row(job_id).status == "dlq"


@pytest.mark.parametrize("end", [canceled, expired, rescued_to_the_dead])
def test_children_that_end_without_a_worker_count_too(
    ctx: JobContext, end: Callable[[UUID], None], settled_database: None
) -> None:
    in_a_minute = database_now() + timedelta(seconds=60)
    (only,) = fan_out(ctx, child(expires_at=in_a_minute))
    end(only)
    assert len(then_jobs()) == 1


@pytest.mark.parametrize("how", ["gone", "over"])
def test_the_sweep_finds_what_ended_without_notice(ctx: JobContext, how: str) -> None:
    (only,) = fan_out(ctx, child())
    assert sweep_fan_ins(None) is None
    assert then_jobs() == []
    if how == "over":
        change(only, status="failed", ready=False)
    else:
        with all_firms("test"):
            JobQueue.objects.filter(pk=only).delete()
    assert sweep_fan_ins(None) is None
    assert sweep_fan_ins(None) is None
    assert len(then_jobs()) == 1


def test_without_children_it_runs_at_once(ctx: JobContext) -> None:
    assert fan_out(ctx) == []
    assert len(then_jobs()) == 1


def test_a_live_job_that_holds_a_childs_key_is_waited_for(ctx: JobContext, firm: Firm) -> None:
    other = enqueue("test.child", firm=firm, idempotency_key="k").job_id
    assert fan_out(ctx, child(idempotency_key="k"), child(idempotency_key="k")) == [other, other]
    assert then_jobs() == []
    settle_one(other)
    assert len(then_jobs()) == 1


def test_a_settled_job_that_holds_a_childs_key_holds_nothing_up(
    ctx: JobContext, firm: Firm
) -> None:
    done = enqueue("test.once", firm=firm, idempotency_key="k").job_id
    settle_one(done)
    (result,) = ctx.enqueue_many([EnqueueSpec("test.once", idempotency_key="k")], then=THEN)
    assert (result.job_id, result.created) == (done, False)
    assert len(then_jobs()) == 1


def test_a_child_that_is_no_spec_is_refused_with_its_place(ctx: JobContext) -> None:
    wrong: Any = [child(), "test.child"]
    with pytest.raises(ArgumentsInvalid, match=r"^jobs\.1: must be an EnqueueSpec, .* not str$"):
        ctx.enqueue_many(wrong, then=THEN)


@pytest.mark.req("J-06")
def test_a_child_that_is_no_spec_is_refused_in_the_middle_of_a_generator(ctx: JobContext) -> None:
    wrong: Any = (child() if place != 5 else "test.child" for place in range(10))
    with pytest.raises(ArgumentsInvalid, match=r"^jobs\.5: must be an EnqueueSpec, .* not str$"):
        ctx.enqueue_many(wrong, then=THEN)
    assert len(rows(JobQueue)) == 1


def test_a_job_may_be_waited_for_by_several(firm: Firm, ctx: JobContext) -> None:
    enqueue("test.parent", firm=firm)
    second = JobContext(take_one(), Signals())
    shared = fan_out(ctx, child(idempotency_key="k"))
    assert fan_out(second, child(idempotency_key="k"), child("own"))[0] == shared[0]
    settle_one(shared[0])
    assert [then.parent_id for then in then_jobs()] == [ctx.job_id]


def test_a_retried_parent_fans_out_once(ctx: JobContext, claim: Claim) -> None:
    first = ctx.enqueue_many([child("a"), child("b")], then=THEN)
    finish(claim, Released("once more"))
    again = JobContext(next(c for c in take() if c.job_id == ctx.job_id), Signals())

    repeated = again.enqueue_many([child("changed")], then=THEN)

    assert repeated == first
    assert all(result.created for result in repeated)
    assert len(rows(JobQueue)) == 3
    assert len(rows(FanIn)) == 1


def test_the_number_of_children_is_not_bounded_as_the_result_of_a_step_is(
    ctx: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "RESULT_MAX_BYTES", 100)
    first = ctx.enqueue_many([child(str(number)) for number in range(5)], then=THEN)
    assert ctx.step("plain", lambda: "a" * 90)
    with pytest.raises(Fatal, match="at most 100"):
        ctx.step("large", lambda: "a" * 100)
    assert len(first) == 5
    assert [one.created for one in first] == [True] * 5


@pytest.mark.req("D-02", "J-17")
def test_a_reprocessed_parent_does_not_fan_out_again(ctx: JobContext, claim: Claim) -> None:
    children = fan_out(ctx, child())
    finish(claim, DEAD)
    reprocess(dead_letters()[0])
    again = JobContext(next(c for c in take() if c.job_id == ctx.job_id), Signals())
    assert fan_out(again, child()) == children
    assert len(rows(FanIn)) == 1


@pytest.mark.parametrize("priority", [0, 3])
def test_children_and_what_follows_them_have_the_priority_of_their_parent(
    claim: Claim, ctx: JobContext, priority: int
) -> None:
    change(claim.job_id, priority=priority)
    job("test.urgent", category="sync", payload=NamePayload, priority=1)(lambda payload, ctx: None)
    specs = [child(), child(priority=2), EnqueueSpec("test.urgent")]
    children = fan_out(ctx, *specs)
    assert [row(job_id).priority for job_id in children] == [priority, 2, 1]
    for job_id in sorted(children, key=lambda job_id: row(job_id).priority):
        settle_one(job_id)
    (then,) = then_jobs()
    assert then.priority == priority


def test_each_call_is_a_step_of_its_own(ctx: JobContext, claim: Claim) -> None:
    first, second = fan_out(ctx, child("a")), fan_out(ctx, child("b"))
    assert first != second
    finish(claim, Released("once more"))
    again = JobContext(next(c for c in take() if c.job_id == ctx.job_id), Signals())
    assert (fan_out(again, child("a")), fan_out(again, child("b"))) == (first, second)
    assert len(rows(FanIn)) == 2


@pytest.mark.req("J-09")
def test_a_late_parent_stores_nothing(ctx: JobContext, claim: Claim) -> None:
    finish(claim, Released("taken away"))
    with pytest.raises(LeaseLost):
        fan_out(ctx, child())
    assert len(rows(JobQueue)) == 1
    assert rows(FanIn) == rows(FanInMember) == []


@pytest.mark.req("J-03")
@pytest.mark.parametrize("then", [("test.then", {"wrong": 1}), ("test.nobody", {})])
def test_what_comes_after_is_checked_at_the_call(ctx: JobContext, then: Any) -> None:
    with pytest.raises(PayloadInvalid):
        ctx.enqueue_many([child()], then=then)
    assert len(rows(JobQueue)) == 1


@pytest.mark.parametrize("wrong", ["test.then", ("test.then",), EnqueueSpec("test.then")])
def test_what_comes_after_is_a_type_and_its_payload(ctx: JobContext, wrong: Any) -> None:
    told = r'^then: must be a type and its payload, \("name", \{…\}\), not '
    with pytest.raises(ArgumentsInvalid, match=told):
        ctx.enqueue_many([child()], then=wrong)
    assert len(rows(JobQueue)) == 1


@pytest.mark.req("J-06")
@pytest.mark.parametrize("wrong", [["test.then"], {"type": "test.then"}, None])
def test_the_type_of_what_comes_after_is_a_name(ctx: JobContext, wrong: Any) -> None:
    told = f"job_type: must be the name of a job type, not {type(wrong).__name__}$"
    with pytest.raises(PayloadInvalid, match=told):
        ctx.enqueue_many([child()], then=(wrong, {}))
    assert len(rows(JobQueue)) == 1


@pytest.mark.req("J-19")
def test_in_a_transaction_it_stands_or_falls_with_it(ctx: JobContext) -> None:
    def fail() -> None:
        with ctx.transaction():
            fan_out(ctx, child())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(rows(JobQueue)) == 1
    with ctx.transaction():
        fan_out(ctx)
    assert len(then_jobs()) == 1


@committed
@pytest.mark.req("J-20")
def test_a_keyed_follower_is_admitted(ctx: JobContext) -> None:
    ctx.enqueue_many([], then=("test.locked", {"name": "key"}))
    (follower,) = [one for one in rows(JobQueue) if one.job_type == "test.locked"]
    assert (follower.ready, follower.waiting) == (True, False)


def test_fan_ins_may_be_nested(firm: Firm, job_types: Any) -> None:
    """Followers have children and followers of their own; each follower runs once."""

    @job("test.tree", category="sync", payload=NamePayload)
    def grow(payload: NamePayload, ctx: JobContext) -> None:
        if len(payload.name) < 2:
            leaves = [EnqueueSpec("test.tree", {"name": payload.name + one}) for one in "ab"]
            ctx.enqueue_many(leaves, then=("test.then", {"name": payload.name}))

    enqueue("test.tree", firm=firm)
    while held := take():
        for one in held:
            finish(one, execute(one, rng=Random(1), signals=Signals()))
    assert sorted(one.payload["name"] for one in then_jobs()) == ["", "a", "b"]
    assert {one.status for one in rows(JobQueue)} == {"completed"}


@pytest.mark.req("J-22")
def test_a_parent_is_not_purged_while_its_children_are_awaited(
    ctx: JobContext, claim: Claim, firm: Firm
) -> None:
    fan_out(ctx, child())
    finish(claim, DONE)
    with later(30 * 86_400):
        assert prune(firm).jobs == 0
        finish(take_one(), DONE)
    with later(60 * 86_400):
        assert prune(firm).jobs == 2
    assert rows(FanIn) == []


@committed
def test_the_last_two_children_settled_at_once_fire_exactly_once(firm: Firm, chaos: bool) -> None:
    """Each round settles all children at the same moment, each in its own transaction."""
    rounds, width = (200, 8) if chaos else (12, 4)
    for _ in range(rounds):
        enqueue("test.parent", firm=firm)
        parent = take_one()
        fan_out(JobContext(parent, Signals()), *[child()] * width)
        held = take()
        together = Barrier(width)

        def settle_together(one: Claim) -> None:
            try:
                together.wait(10)  # noqa: B023 - called at once
                finish(one, DONE)
            finally:
                connection.close()

        with ThreadPoolExecutor(width) as pool:
            list(pool.map(settle_together, held))
        finish(parent, DONE)
        (then,) = take()
        assert then.job_type == "test.then"
        finish(then, DONE)
    assert len(then_jobs()) == rounds
