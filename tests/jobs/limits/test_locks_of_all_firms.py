"""Locks over all firms: one set of slots for all, in which no firm sees another firm's jobs."""

from __future__ import annotations

from random import Random

import pytest

from jobs.conf import lease_seconds
from jobs.engine.admission import admit, sweep
from jobs.engine.claim import Claim
from jobs.engine.delete_owned import delete_jobs_of_firm
from jobs.engine.fan_in_rows import job_from_json, job_to_json
from jobs.engine.new_job import EnqueueSpec, new_job
from jobs.engine.outcomes import Completed, Retry
from jobs.engine.rescue import rescue
from jobs.engine.transactions import in_transaction
from jobs.execution.context import JobContext, Signals
from jobs.models import ConcurrencyLock, JobQueue
from jobs.operations.enqueue import enqueue as enqueue_by_hand
from jobs.queries.locks import waiters_of
from jobs.queries.why_waiting import WaitReason
from jobs.queue import (
    acquire_lock,
    cancel,
    enqueue,
    enqueue_chain,
    pause,
    release_lock,
    resume,
    why_waiting,
)
from jobs.testing import drain
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.queue_kit import FAILURE, finish, later, locks, new_worker, row, take, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-20")]


def hand_over(held: Claim) -> None:
    """Complete the job, and admit the next one."""
    admit(finish(held, Completed({})).released_capacity)


def locked_for(firm: Firm, job_id) -> list[str]:
    """Return what an operator of the firm is told of the lock that its job waits for."""
    with firm_scope(firm):
        told: list[WaitReason] = why_waiting(JobQueue.objects.get(pk=job_id))
    return [reason.detail for reason in told if reason.code == "locked"]


def test_one_at_a_time_over_all_firms(firm, other_firm, add):
    first, theirs = add("test.shared", "api"), add("test.shared", "api", firm=other_firm)
    another_key = add("test.shared", "other", firm=other_firm)
    of_their_firm = add("test.locked", "api", firm=other_firm)
    assert {one.job_id for one in take()} == {first, another_key, of_their_firm}
    assert sweep() == 0
    assert (row(theirs).waiting, row(theirs).attempts) == (True, 0)
    assert {(lock.firm_id, lock.lock_key) for lock in locks()} == {
        (Firm.objects.system().pk, "api"),
        (Firm.objects.system().pk, "other"),
        (other_firm.pk, "api"),
    }


def test_as_many_as_the_type_says_over_all_firms(firm, other_firm, add):
    for _ in range(2):
        add("test.shared_by_two", "api", firm=other_firm)
        add("test.shared_by_two", "api")
    sweep()
    assert len(take()) == 2
    assert sorted(lock.slot for lock in locks()) == [0, 1]


def test_firms_take_turns_whoever_came_first(firm, other_firm, add):
    for one in (firm, other_firm):
        for _ in range(3):
            add("test.shared", "api", firm=one)
    turns = []
    for _ in range(6):
        held = take_one()
        turns.append(held.firm_id)
        hand_over(held)
    assert turns == [firm.pk, other_firm.pk] * 3
    assert locks() == []


def test_a_firm_whose_work_stands_still_is_passed_over(firm, other_firm, add):
    add("test.shared", "api")
    stop = pause(firm=other_firm, reason="test")
    held_back, next_one = add("test.shared", "api", firm=other_firm), add("test.shared", "api")
    hand_over(take_one())
    held = take_one()
    assert held.job_id == next_one
    with all_firms("test"):
        resume(stop)
    hand_over(held)
    assert [one.job_id for one in take()] == [held_back]


@pytest.mark.req("J-14")
def test_rescue_of_a_dead_holder_frees_the_slot_for_another_firm(
    firm, other_firm, add, settled_database
):
    worker_id = new_worker()
    add("test.shared", "api")
    theirs = add("test.shared", "api", firm=other_firm)
    take_one(worker_id)
    with later(lease_seconds() + 1):
        report = rescue(Random(1))
        admit(report.released_capacity)
        assert [one.job_id for one in take()] == [theirs]


def test_a_retry_gives_the_slot_to_the_next_firm(firm, other_firm, add):
    first, theirs = add("test.shared", "api"), add("test.shared", "api", firm=other_firm)
    admit(finish(take_one(), Retry(60, FAILURE)).released_capacity)
    assert [one.job_id for one in take()] == [theirs]
    assert row(first).waiting


def test_the_slot_goes_on_at_the_commit_of_a_handlers_transaction(firm, other_firm, add):
    add("test.shared", "api")
    theirs = add("test.shared", "api", firm=other_firm)
    with JobContext(take_one(), Signals()).transaction():
        pass
    assert [one.job_id for one in take()] == [theirs]


def test_an_operator_of_one_firm_who_cancels_frees_the_slot(firm, other_firm, add):
    first, theirs = add("test.shared", "api"), add("test.shared", "api", firm=other_firm)
    with firm_scope(firm):
        cancel(first)
    sweep()
    assert [one.job_id for one in take()] == [theirs]


@pytest.mark.req("T-04")
def test_the_deletion_of_a_firm_frees_its_slots(firm, other_firm, add):
    add("test.shared", "api")
    theirs = add("test.shared", "api", firm=other_firm)
    with all_firms("test"):
        assert in_transaction(lambda: delete_jobs_of_firm(firm.pk)) == 1
    sweep()
    assert [one.job_id for one in take()] == [theirs]


def test_a_lock_of_the_system_firm_is_one_over_all_firms(firm, add):
    lock = acquire_lock("api", 60, firm=Firm.objects.system())
    assert lock is not None
    job_id = add("test.shared", "api")
    assert take() == []
    assert locked_for(firm, job_id) == ["lock api of all firms (1 at once) is taken"]
    assert release_lock(lock)
    sweep()
    assert [one.job_id for one in take()] == [job_id]


def test_both_ways_to_count_may_have_the_same_key_in_a_firm(firm, add):
    of_firm = [add("test.locked", "api") for _ in range(2)]
    of_all = [add("test.shared", "api") for _ in range(2)]
    assert {one.job_id for one in take()} == {of_firm[0], of_all[0]}
    assert sweep() == 0


def test_the_system_firm_comes_back_after_a_flush(firm, add):
    with all_firms("test"):
        Firm.objects.system().delete()
    job_id = add("test.shared", "api")
    assert [one.job_id for one in take()] == [job_id]


def test_a_job_that_is_enqueued_later_keeps_how_its_lock_counts(firm, other_firm, add):
    theirs = add("test.shared", "api", firm=other_firm)
    enqueue_chain(
        [EnqueueSpec("test.other"), EnqueueSpec("test.shared", {"name": "api"})], firm=firm
    )
    of_other_type = {one.job_type: one for one in take()}
    admit(finish(of_other_type["test.other"], Completed({})).released_capacity)
    with all_firms("test"):
        second = JobQueue.objects.get(firm=firm, job_type="test.shared")
    assert (second.shares_lock, second.waiting) == (True, True)
    assert row(theirs).status == "claimed"


def test_what_is_kept_of_a_later_job_names_the_count_only_where_it_is_over_all_firms(firm):
    """Workers of the previous version must be able to read the rows of all other jobs."""
    shared = new_job(EnqueueSpec("test.shared", {"name": "api"}), firm.pk)
    plain = new_job(EnqueueSpec("test.locked", {"name": "api"}), firm.pk)
    assert job_from_json(job_to_json(shared), firm.pk).lock_counted_by == "all_firms"
    assert "lock_counted_by" not in job_to_json(plain)
    assert job_from_json(job_to_json(plain), firm.pk).lock_counted_by == "firm"


def test_a_job_that_is_replaced_counts_as_the_new_one(firm, add):
    job_id = add("test.work", "api", idempotency_key="one", delay=60)
    with all_firms("test"):
        JobQueue.objects.filter(pk=job_id).update(job_type="test.shared")
    enqueue("test.shared", {"name": "api"}, firm=firm, idempotency_key="one", on_conflict="replace")
    assert row(job_id).shares_lock


@pytest.mark.req("T-03", "J-25")
def test_why_waiting_names_jobs_of_the_own_firm_and_of_no_other(firm, other_firm, add):
    mine = add("test.shared", "api")
    theirs, later_one = (add("test.shared", "api", firm=other_firm) for _ in range(2))
    next_of_mine = add("test.shared", "api")
    assert locked_for(other_firm, theirs) == ["lock api of all firms (1 at once) is taken"]
    assert locked_for(other_firm, later_one) == [
        "lock api of all firms (1 at once) is taken; jobs of this firm ahead of it: 1"
    ]
    (own,) = locked_for(firm, next_of_mine)
    assert own.startswith(
        f"lock api of all firms (1 at once) is taken; holders in this firm: job {mine} for "
    )
    hand_over(take_one())
    assert [one.job_id for one in take()] == [theirs]
    assert str(theirs) not in "".join(locked_for(firm, next_of_mine))


@pytest.mark.req("T-03")
def test_a_firm_sees_neither_the_slot_nor_who_waits_for_it(firm, other_firm, add):
    add("test.shared", "api")
    theirs = add("test.shared", "api", firm=other_firm)
    (lock,) = locks()
    with firm_scope(other_firm):
        assert not ConcurrencyLock.objects.exists()
    with all_firms("test"):
        assert [job.job_id for job in waiters_of(lock).first] == [theirs]
    with firm_scope(firm):
        assert list(waiters_of(lock).first) == []


def test_nobody_gives_a_key_of_their_own_to_a_lock_over_all_firms(firm):
    with firm_scope(firm), pytest.raises(Exception, match="counts over all firms") as refused:
        enqueue_by_hand("test.shared", {"name": "api"}, firm=firm, lock_key="mine")
    (fault,) = refused.value.errors
    assert (fault["field"], fault["code"]) == ("lock_key", "not_possible")
    with firm_scope(firm):
        assert enqueue_by_hand("test.locked", {"name": "api"}, firm=firm, lock_key="mine").created


def test_the_test_kit_runs_them_one_after_the_other(firm, other_firm, add):
    for one in (firm, other_firm, firm):
        add("test.shared", "api", firm=one)
    assert drain().counts == {"completed": 3}
