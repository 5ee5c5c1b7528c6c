"""The database did what was asked, and the answer never came."""

from __future__ import annotations

import pytest

from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Completed
from jobs.engine.release import release_lost
from jobs.states import AttemptEnd, Status
from tests.queue_kit import finish, new_worker, take
from tests.support.scenario import Scenario


@pytest.mark.req("J-08", "J-11", "J-13")
def test_a_worker_releases_claims_of_which_the_answer_was_lost(queue: Scenario) -> None:
    queue.add(4)
    keyed = queue.add(lock_key="key")[0]
    worker_id = new_worker()
    done, known, *lost = take(worker_id=worker_id)
    finish(done, Completed({}))
    of_another = queue.add()[0]
    take(worker_id=new_worker())

    given_back = release_lost(worker_id, {known.lease_token})

    assert {held.job_id for held in given_back} == {claim.job_id for claim in lost}
    assert ReleasedCapacity.of_jobs(given_back).keys == {(queue.firm.pk, "key")}
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

    assert not repeated.stale, "the worker's own write, not somebody else's"
    assert queue.row(claim.job_id).result == {"first": True}
    queue.check()
