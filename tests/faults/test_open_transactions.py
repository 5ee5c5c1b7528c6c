"""A caller's open transaction: only the jobs that it has locked wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random
from threading import Event
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from django.db import connection, transaction

from jobs.breaker import Breaker
from jobs.engine import dialects, fan_in
from jobs.engine.batches import sweep_batches
from jobs.engine.claim import Claim
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, SHORT_LOCK_TIMEOUT_MILLISECONDS
from jobs.engine.fan_in import sweep_fan_ins
from jobs.engine.outcomes import Completed, Outcome, Released, Retry, Settlement, SettleReport
from jobs.engine.pending_work import read_pending_work
from jobs.engine.settle import settle
from jobs.errors import WrongState
from jobs.models import Batch, CircuitBreaker, FanIn, JobQueue, Worker
from jobs.queue import (
    EnqueueSpec,
    batch_progress,
    cancel,
    enqueue,
    enqueue_batch,
    enqueue_many,
)
from jobs.registry import JobPayload, job
from jobs.states import Status
from jobs.worker import completer
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.faults.test_deadlocks import count_deadlocks, do_nothing
from tests.queue_kit import FAILURE, attempts, context, counted, finish, new_worker, row, rows, take
from tests.support.databases import postgresql_only
from tests.support.scenario import Scenario
from tests.support.worker_loop import worker_loop, working

pytestmark = [pytest.mark.req("J-09"), postgresql_only]

JOBS = 1600
AGAIN = Retry(0.0, FAILURE)


@contextmanager
def open_transaction(firm: Firm, work: Callable[[], object]) -> Iterator[None]:
    """Run `work` in a transaction of another thread, which is committed at the end of the block."""
    began, end = Event(), Event()

    def hold() -> None:
        try:
            with firm_scope(firm), transaction.atomic():
                work()
                began.set()
                assert end.wait(120)
        finally:
            began.set()
            connection.close()

    with ThreadPoolExecutor(1) as holder:
        holding = holder.submit(hold)
        assert began.wait(20)
        try:
            yield
        finally:
            end.set()
        holding.result(20)


def outcomes(claims: list[Claim], outcome: Outcome) -> list[Settlement]:
    return [Settlement(claim, outcome, 0.1) for claim in claims]


def settle_beside(
    settlements: list[Settlement], *, again: bool = False
) -> tuple[SettleReport, float]:
    """Settle while rows are locked; return the report, and how many seconds it waited in vain.

    The seconds are the number of lock timeouts times their length, so they do not depend on how
    busy the machine is.
    """
    given_up: list[Exception] = []
    dialect = type(dialects.current())
    is_lock_timeout = dialect.is_lock_timeout

    def note(own: Any, error: Exception) -> bool:
        found = is_lock_timeout(own, error)
        if found and error not in given_up:
            given_up.append(error)
        return found

    with patch.object(dialect, "is_lock_timeout", note):
        report = settle(settlements, again=again)
    milliseconds = SHORT_LOCK_TIMEOUT_MILLISECONDS if again else LOCK_TIMEOUT_MILLISECONDS
    return report, len(given_up) * milliseconds / 1000


def test_a_cancel_in_an_open_transaction_stops_no_completion(
    queue: Scenario, other_firm: Firm
) -> None:
    (canceled,) = queue.enqueue([EnqueueSpec("noop", delay=3600)])
    jobs = [EnqueueSpec("noop")] * (JOBS // 2)
    ids = queue.enqueue(jobs)
    ids += [one.job_id for one in enqueue_many(jobs, firm=other_firm)]
    queue.accepted += ids[JOBS // 2 :]
    with (
        open_transaction(queue.firm, lambda: cancel(canceled)),
        working(worker_loop(burst=False, concurrency=20)),
    ):
        queue.wait_until_settled(ids)
    assert queue.statuses() == {Status.COMPLETED: JOBS, Status.CANCELED: 1}
    queue.check()


@pytest.mark.parametrize("outcome", [Completed({}), AGAIN], ids=["plain", "transition"])
def test_what_is_locked_is_skipped_and_written_later(queue: Scenario, outcome: Outcome) -> None:
    queue.enqueue([EnqueueSpec("noop")] * 5)
    claims = take(5, worker_id=new_worker())
    locked = sorted(claims, key=lambda claim: claim.job_id)[2]
    with open_transaction(queue.firm, lambda: cancel(locked.job_id)):
        report, seconds = settle_beside(outcomes(claims, outcome))
        assert (report.locked, report.stale, len(report.statuses)) == ([locked], [], 4)
        assert seconds < 1
        report, seconds = settle_beside(outcomes([locked], outcome), again=True)
        assert (report.locked, report.stale, report.statuses) == ([locked], [], {})
        assert row(locked.job_id).status == Status.CLAIMED
    report = settle(outcomes([locked], outcome), again=True)
    over = Status.COMPLETED if outcome is not AGAIN else Status.CANCELED
    assert (report.locked, report.statuses) == ([], {locked.job_id: over})
    assert counted("completed") + counted("retried") == 5 - (outcome is AGAIN)
    assert len(attempts()) == (5 if outcome is AGAIN else 0)


def test_a_breaker_that_is_locked_keeps_its_own_type_only(
    queue: Scenario, job_types: object
) -> None:
    job("frail", category="sync", payload=JobPayload, breaker=Breaker())(do_nothing)
    queue.enqueue([EnqueueSpec("frail")] * 3)
    first, *frail = take(3, worker_id=new_worker())
    finish(first, AGAIN)
    queue.enqueue([EnqueueSpec("noop")] * 3)
    others = [one for one in take(9, worker_id=new_worker()) if one.job_type == "noop"]

    def lock_breaker() -> None:
        assert CircuitBreaker.objects.update(attempts=1) == 1

    with open_transaction(queue.firm, lock_breaker):
        batch = outcomes([*frail, *others], Completed({})) + outcomes(others[:1], AGAIN)
        report, seconds = settle_beside(batch)
        assert set(report.locked) == set(frail)
        assert report.statuses == {one.job_id: Status.COMPLETED for one in others}
        assert seconds < 2
        report, seconds = settle_beside(outcomes(frail, Completed({})), again=True)
        assert set(report.locked) == set(frail)
        assert seconds < 0.5
    report = settle(outcomes(frail, Completed({})), again=True)
    assert report.statuses == {one.job_id: Status.COMPLETED for one in frail}


def fan_out(queue: Scenario, then: str) -> list[Claim]:
    """Claim two children of a fan-in with the follower `then`, and another job."""
    queue.enqueue([EnqueueSpec("noop")])
    ctx = context(take(1, worker_id=new_worker())[0])
    made = ctx.enqueue_many([EnqueueSpec("noop")] * 2, then=(then, {}))
    (other,) = queue.enqueue([EnqueueSpec("noop")])
    claims = {one.job_id: one for one in take(9, worker_id=new_worker())}
    return [claims[one] for one in (made[0].job_id, made[1].job_id, other)]


@pytest.mark.req("A-02")
def test_a_fan_in_that_is_locked_keeps_nobody_and_fires_once(
    queue: Scenario, job_types: object
) -> None:
    job("then", category="sync", payload=JobPayload)(do_nothing)
    canceled, child, other = fan_out(queue, "then")
    finish(canceled, Released("not now", 3600.0))
    with open_transaction(queue.firm, lambda: cancel(canceled.job_id)):
        report, seconds = settle_beside(outcomes([child, other], Completed({})))
        assert report.statuses == dict.fromkeys((child.job_id, other.job_id), Status.COMPLETED)
        assert seconds < 0.5
        sweep_fan_ins(None)
        assert rows(FanIn)[0].fired_at is None
    (fired,) = rows(FanIn)
    assert row(fired.then_job_id).job_type == "then"
    sweep_fan_ins(None)
    assert len([one for one in rows(JobQueue) if one.job_type == "then"]) == 1


@pytest.mark.req("A-02")
def test_a_batch_in_an_open_transaction_keeps_nobody_and_is_settled_once(
    queue: Scenario, job_types: object
) -> None:
    job("then", category="sync", payload=JobPayload)(do_nothing)
    then = EnqueueSpec("then")
    made = enqueue_batch([EnqueueSpec("noop")] * 3, on_settled=then, firm=queue.firm)
    first, second = take(2)
    (third,) = {one.job_id for one in made.jobs} - {first.job_id, second.job_id}
    with open_transaction(queue.firm, lambda: cancel(third)):
        report, seconds = settle_beside(outcomes([first, second], Completed({})))
        assert report.statuses == dict.fromkeys((first.job_id, second.job_id), Status.COMPLETED)
        assert seconds < 0.5
        sweep_batches(None)
        assert batch_progress(made.batch_id).pending == 1
    assert (batch_progress(made.batch_id).canceled, len(rows(Batch))) == (1, 1)
    sweep_batches(None)
    assert len([one for one in rows(JobQueue) if one.job_type == "then"]) == 1


@pytest.mark.req("A-02")
def test_the_sweep_fires_a_fan_in_that_its_worker_did_not_fire(
    queue: Scenario, job_types: object
) -> None:
    job("then", category="sync", payload=JobPayload)(do_nothing)
    first, second, _ = fan_out(queue, "then")
    with patch.object(fan_in, "_fire", return_value=set()):
        settle(outcomes([first, second], Completed({})))
    assert rows(FanIn)[0].fired_at is None
    assert read_pending_work().fan_ins
    sweep_fan_ins(None)
    assert rows(FanIn)[0].fired_at is not None
    assert not read_pending_work().fan_ins


@pytest.mark.req("A-02")
def test_the_key_of_a_follower_keeps_nobody(queue: Scenario, job_types: object) -> None:
    job("then", category="sync", payload=JobPayload, idempotency_key=lambda _: "key")(do_nothing)
    first, last, other = fan_out(queue, "then")
    settle(outcomes([first], Completed({})))
    holders: list[UUID] = []

    def take_key() -> None:
        holders.append(enqueue("noop", firm=queue.firm, idempotency_key="key").job_id)

    with open_transaction(queue.firm, take_key):
        report, seconds = settle_beside(outcomes([last, other], Completed({})))
        assert report.statuses == dict.fromkeys((last.job_id, other.job_id), Status.COMPLETED)
        assert seconds < 0.5
        sweep_fan_ins(None)
        assert rows(FanIn)[0].fired_at is None
    sweep_fan_ins(None)
    assert [one.then_job_id for one in rows(FanIn)] == holders


@pytest.mark.req("W-02")
def test_a_worker_comes_back_to_what_was_locked(queue: Scenario) -> None:
    gate = queue.gate()
    (locked,) = queue.add(gate=gate)
    with working(worker_loop(burst=False, concurrency=4)):
        queue.wait_until_started(locked)
        with open_transaction(queue.firm, lambda: cancel(locked)):
            gate.open()
            others = queue.enqueue([EnqueueSpec("noop")] * 300)
            queue.wait_until_settled(others)
            time.sleep(3 * completer.RETRY_LOCKED_SECONDS)
            assert row(locked).status in (Status.CLAIMED, Status.PROCESSING)
        # The job is settled although the worker always has other outcomes to write.
        begun = time.monotonic()
        while row(locked).status != Status.COMPLETED:
            queue.enqueue([EnqueueSpec("noop")] * 20)
            assert time.monotonic() - begun < 10
        queue.wait_until_settled()
    assert not Worker.objects.exists()
    queue.check()


@pytest.mark.req("W-02")
def test_a_claim_that_is_locked_when_it_is_given_back_is_not_forgotten(queue: Scenario) -> None:
    queue.enqueue([EnqueueSpec("noop")] * 2)
    loop = worker_loop()
    locked, other = take(2, worker_id=loop.state.worker_id)
    with open_transaction(queue.firm, lambda: cancel(locked.job_id)):
        loop._release([locked, other], "another worker may start it sooner")
        assert row(other.job_id).status == Status.PENDING
        assert row(locked.job_id).status == Status.CLAIMED
    loop.run()
    assert row(locked.job_id).status == Status.CANCELED
    assert row(other.job_id).status == Status.COMPLETED
    queue.check()


@pytest.mark.req("W-04")
def test_the_end_of_a_worker_does_not_wait_for_what_is_locked(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "LOCKED_AT_END_SECONDS", 1.0)
    gate = queue.gate()
    (locked,) = queue.add(gate=gate)
    queue.enqueue([EnqueueSpec("noop")] * 50)
    with ThreadPoolExecutor(1) as runner:
        loop = worker_loop(burst=True, concurrency=4)

        def run() -> None:
            try:
                loop.run()
            finally:
                connection.close()

        running = runner.submit(run)
        queue.wait_until_started(locked)
        with open_transaction(queue.firm, lambda: cancel(locked)):
            gate.open()
            running.result(15)
            assert row(locked).status in (Status.CLAIMED, Status.PROCESSING)
            # The worker's row stays, so that a rescue takes the job back when the lease is over.
            assert Worker.objects.get().pk == row(locked).worker_id
    assert queue.statuses()[Status.COMPLETED] == 50


def test_many_cancels_in_one_transaction_under_load_do_not_deadlock(
    queue: Scenario, other_firm: Firm, chaos: bool
) -> None:
    rng = Random(5)
    deadlocks = count_deadlocks()
    with working(worker_loop(burst=False, concurrency=20)):
        for _ in range(20 if chaos else 4):
            ids = queue.enqueue([EnqueueSpec("noop")] * 600)
            ids += queue.enqueue([EnqueueSpec("noop", delay=3600)] * 60)
            queue.accepted += [
                one.job_id for one in enqueue_many([EnqueueSpec("noop")] * 300, firm=other_firm)
            ]
            wanted = rng.sample(ids, 97)

            def cancel_all() -> None:
                for job_id in wanted:  # noqa: B023 - called at once
                    if row(job_id).status in (Status.PENDING, Status.CLAIMED):
                        cancel_unless_over(job_id)

            with open_transaction(queue.firm, cancel_all):
                time.sleep(0.3)
            for job_id in ids[600:]:
                cancel_unless_over(job_id)
        queue.wait_until_settled()
    assert count_deadlocks() == deadlocks
    queue.check()


def cancel_unless_over(job_id: UUID) -> None:
    with suppress(WrongState):
        cancel(job_id)
