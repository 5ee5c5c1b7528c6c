"""Giving back claims of jobs that have not started."""

from __future__ import annotations

import pytest

from jobs.engine.admission import sweep
from jobs.engine.outcomes import Completed, Released
from jobs.engine.release import release, release_lost
from jobs.operations.jobs import cancel
from jobs.operations.limits import pause
from jobs.states import Status
from tenants.scope import all_firms
from tests.queue_kit import attempts, finish, locks, row, take, take_one

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("J-11", "W-03"),
]


def test_the_attempt_is_given_back_and_the_job_is_there_for_others(add):
    job_id = add(idempotency_key="key")
    held = take_one()
    assert release([held], "worker stopped") == {job_id: Status.PENDING}
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.ready) == ("pending", 0, True)
    assert (stored.worker_id, stored.claimed_at, stored.lease_token) == (None, None, 0)
    assert stored.live_key == "key"
    (attempt,) = attempts()
    assert (attempt.end, attempt.message, attempt.number) == ("released", "worker stopped", 1)
    assert take_one().lease_token > held.lease_token


@pytest.mark.req("J-08")
def test_a_job_that_is_given_back_keeps_its_place(add):
    ids = [add() for _ in range(4)]
    first, second = take(2)
    finish(second, Released("lease lost"), None)
    release([first], "worker stopped")
    assert [one.job_id for one in take()] == ids


@pytest.mark.req("J-08")
def test_a_job_that_is_given_back_keeps_its_priority_and_time(add):
    low, high = add(priority=3), add(priority=1)
    before = {job_id: row(job_id) for job_id in (low, high)}
    held = [take_one(), take_one()]
    finish(held[1], Released("lease lost"), None)
    release(held[:1], "worker stopped")
    for job_id, was in before.items():
        stored = row(job_id)
        assert (stored.priority, stored.scheduled_at) == (was.priority, was.scheduled_at)
    assert [take_one().job_id, take_one().job_id] == [high, low]


def test_a_claim_that_is_no_longer_held_stays_as_it_is(add):
    done, taken, mine = add(), add(), add()
    held = {one.job_id: one for one in take(3)}
    finish(held[done], Completed({}))
    assert list(release([held[taken]], "taken away")) == [taken]
    current = take_one()
    assert current.job_id == taken
    assert list(release(list(held.values()), "worker stopped")) == [mine]
    assert row(done).status == "completed"
    assert (row(taken).status, row(taken).lease_token) == ("claimed", current.lease_token)


def test_a_released_job_gives_its_slot_up_and_waits_for_it_again(add):
    job_id = add("test.locked", "key")
    release([take_one()], "worker stopped")
    assert locks() == []
    assert (row(job_id).ready, row(job_id).waiting) == (False, True)
    assert take() == []
    assert sweep() == 1
    assert take_one().job_id == job_id


@pytest.mark.req("J-16")
@pytest.mark.parametrize(
    "give_back",
    [
        lambda held: release([held], "worker stopped"),
        lambda held: release_lost(held.worker_id, ()),
    ],
    ids=["released", "lost answer"],
)
def test_a_canceled_job_is_over_when_it_is_given_back_although_its_type_is_paused(
    add, firm, give_back
):
    job_id = add("test.locked", "key", idempotency_key="mine")
    held = take_one()
    with all_firms("test"):
        pause(firm=firm, job_type="test.locked", reason="the mirror is down")
        assert cancel(job_id).status == "claimed"
    give_back(held)
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.live_key) == ("canceled", 0, None)
    assert (stored.ready, stored.waiting, locks()) == (False, False, [])
    assert [one.end for one in attempts()] == ["canceled"]


def test_releasing_nothing_is_nothing(firm):
    assert release([], "worker stopped") == {}
