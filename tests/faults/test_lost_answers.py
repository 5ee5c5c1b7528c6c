"""The database did what it was asked to do, but the answer was lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from jobs.engine.claim import Claim
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Completed
from jobs.engine.release import release_lost
from jobs.models import JobQueue, Worker
from jobs.queue import EnqueueSpec
from jobs.states import AttemptEnd, Status
from jobs.worker import claimer
from tests.faults.test_open_transactions import open_transaction
from tests.queue_kit import finish, new_worker, row, take
from tests.support.databases import postgresql_only
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

Lose = Callable[[Callable[[], object]], list[UUID]]


@pytest.fixture
def lose_an_answer(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Return a function that loses the answer to the first claim that takes jobs.

    That function returns a list, which has the jobs' ids once the answer is lost. Its argument is
    called between the commit and the loss.
    """

    def lose(then: Callable[[], object]) -> list[UUID]:
        original = claimer.claim
        lost: list[UUID] = []

        def claim(*given: Any, **named: Any) -> list[Claim]:
            claims = original(*given, **named)
            if claims and not lost:
                then()
                lost.extend(claim.job_id for claim in claims)
                raise OperationalError("the connection was lost")
            return claims

        monkeypatch.setattr(claimer, "claim", claim)
        return lost

    return lose


def locked(queue: Scenario, job_id: UUID) -> AbstractContextManager[None]:
    return open_transaction(queue.firm, lambda: JobQueue.objects.select_for_update().get(pk=job_id))


@pytest.mark.req("J-08", "J-11", "J-13")
def test_a_worker_releases_claims_of_which_the_answer_was_lost(queue: Scenario) -> None:
    queue.add(4)
    keyed = queue.add(lock_key="key")[0]
    worker_id = new_worker()
    done, known, *lost = take(worker_id=worker_id)
    finish(done, Completed({}))
    of_another = queue.add()[0]
    take(worker_id=new_worker())

    given_back, left = release_lost(worker_id, {known.lease_token})

    assert not left
    assert {held.job_id for held, _ in given_back} == {claim.job_id for claim in lost}
    assert ReleasedCapacity.of_jobs(held for held, _ in given_back).keys == {(queue.firm.pk, "key")}
    assert queue.row(known.job_id).lease_token == known.lease_token
    assert queue.row(of_another).status == Status.CLAIMED
    assert keyed in {claim.job_id for claim in lost}
    for claim in lost:
        job = queue.row(claim.job_id)
        assert (job.status, job.attempts, job.worker_id) == (Status.PENDING, 0, None)
        assert [one.end for one in queue.attempts(claim.job_id)] == [AttemptEnd.RELEASED]


@pytest.mark.req("J-09")
def test_an_outcome_written_twice_counts_once(queue: Scenario) -> None:
    queue.add()
    (claim,) = take(worker_id=new_worker())
    finish(claim, Completed({"first": True}))

    repeated = finish(claim, Completed({"first": False}))

    assert not repeated.stale, "the first write was the worker's own"
    assert queue.row(claim.job_id).result == {"first": True}
    queue.check()


@postgresql_only
@pytest.mark.req("J-08", "J-13", "W-02")
def test_a_lost_claim_that_a_caller_has_locked_is_released_later(
    queue: Scenario, lose_an_answer: Lose
) -> None:
    (job_id,) = queue.enqueue([EnqueueSpec("noop")])

    with ExitStack() as caller:
        lost = lose_an_answer(lambda: caller.enter_context(locked(queue, job_id)))
        with working(worker_loop(burst=False, poll_seconds=60)):
            wait_until(lambda: lost, "the claim")
            queue.wait_until_settled(queue.enqueue([EnqueueSpec("noop")] * 20))
            assert row(job_id).status == Status.CLAIMED
            caller.close()
            # Much sooner than the next poll.
            queue.wait_until_settled(timeout=15)
    assert [one.end for one in queue.attempts(job_id)] == [AttemptEnd.RELEASED]
    queue.check()


@postgresql_only
@pytest.mark.req("W-04")
@pytest.mark.parametrize("burst", [True, False])
def test_no_worker_waits_at_its_end_for_a_lost_claim_that_is_locked(
    queue: Scenario, lose_an_answer: Lose, burst: bool
) -> None:
    (job_id,) = queue.enqueue([EnqueueSpec("noop")])

    with ExitStack() as caller:
        lost = lose_an_answer(lambda: caller.enter_context(locked(queue, job_id)))
        loop = worker_loop(burst=burst)
        with working(loop):
            wait_until(lambda: lost, "the claim")
            if burst:
                wait_until(loop.state.halt.is_set, "the end of the burst")
        assert row(job_id).status == Status.CLAIMED
    # The worker's row is deleted, and other workers rescue jobs whose worker has no row.
    assert not Worker.objects.exists()


@pytest.mark.req("J-08", "W-04")
def test_a_lost_claim_is_released_at_the_end_of_the_worker(
    queue: Scenario, lose_an_answer: Lose
) -> None:
    (job_id,) = queue.enqueue([EnqueueSpec("noop")])
    loop = worker_loop(burst=False)
    lose_an_answer(loop.stop)
    loop.run()
    job = row(job_id)
    assert (job.status, job.attempts, job.worker_id) == (Status.PENDING, 0, None)
    assert [one.end for one in queue.attempts(job_id)] == [AttemptEnd.RELEASED]
