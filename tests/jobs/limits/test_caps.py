"""A firm's cap: at most that many of its jobs run at once, on all workers together."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from uuid import UUID

import pytest

from jobs.engine import candidates
from jobs.engine.admission import admit, sweep
from jobs.engine.clock import database_now
from jobs.engine.demotion import demote
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Completed, Retry
from jobs.engine.release import release
from jobs.engine.rescue import rescue
from tenants.models import Firm
from tests.queue_kit import FAILURE, finish, later, locks, new_worker, row, take, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-23")]


def cap(firm: Firm, most: int | None) -> None:
    """Set the firm's cap as any code may do."""
    Firm.objects.filter(pk=firm.pk).update(running_cap=most)


def running(limit: int = 10) -> list[UUID]:
    """Sweep and claim; return the ids of the jobs in the order in which they run."""
    sweep()
    return [one.job_id for one in take(limit)]


def test_as_many_as_the_cap_and_the_rest_in_their_turn(firm, other_firm, add):
    cap(firm, 2)
    ids = [add() for _ in range(5)]
    theirs = [add(firm=other_firm) for _ in range(3)]
    sweep()
    held = take()
    assert {one.job_id for one in held} == {*ids[:2], *theirs}
    assert running() == []
    mine = next(one for one in held if one.job_id == ids[0])
    assert admit(finish(mine, Completed({})).released_capacity) == 1
    assert [one.job_id for one in take()] == [ids[2]]
    assert [row(job_id).attempts for job_id in ids] == [1, 1, 1, 0, 0]


def test_what_was_ready_before_the_cap_is_held_too(firm, add):
    ids = [add() for _ in range(3)]
    cap(firm, 1)
    assert take() == []
    demote()
    assert running() == ids[:1]


def test_what_ran_before_the_cap_counts(firm, add):
    add()
    before = take_one()
    cap(firm, 1)
    later_one = add()
    assert running() == []
    finish(before, Completed({}))
    assert running() == [later_one]


def test_without_its_cap_all_of_it_runs(firm, add):
    cap(firm, 1)
    ids = [add() for _ in range(4)]
    assert running() == ids[:1]
    cap(firm, None)
    assert running() == ids[1:]


def test_a_lower_cap_takes_back_what_has_not_started(firm, add):
    cap(firm, 4)
    ids = [add() for _ in range(4)]
    sweep()
    cap(firm, 1)
    demote()
    assert [row(job_id).ready for job_id in ids] == [True, False, False, False]
    assert running() == ids[:1]


def test_a_job_that_one_cap_let_run_has_to_be_admitted_under_the_next(firm, add):
    cap(firm, 1)
    add()
    sweep()
    held = take_one()
    cap(firm, None)
    finish(held, Retry(0.0, FAILURE))
    cap(firm, 0)
    with later(1):
        assert take() == []


def test_a_cap_of_zero_stops_the_firm(firm, add):
    job_id = add()
    cap(firm, 0)
    demote()
    assert running() == []
    cap(firm, 1)
    assert running() == [job_id]


def test_the_firms_line_goes_by_priority_then_time_whatever_the_key_or_type(firm, add):
    cap(firm, 0)
    past = database_now() - timedelta(days=1)
    third = add("test.other", at=past + timedelta(seconds=2))
    second = add("test.locked", "key", at=past + timedelta(seconds=1))
    last = add("test.locked", "key", priority=3, at=past)
    first = add("test.work", priority=0)
    cap(firm, 1)
    order = []
    for _ in range(4):
        sweep()
        held = take_one()
        order.append(held.job_id)
        finish(held, Completed({}))
    assert order == [first, second, third, last]


@pytest.mark.req("J-20")
def test_a_keyed_job_takes_no_slot_while_its_firm_has_no_room(firm, add):
    cap(firm, 1)
    first, keyed = add(), add("test.locked", "key")
    assert running() == [first]
    assert locks() == []
    assert row(keyed).waiting


@pytest.mark.req("J-20")
def test_a_taken_key_takes_no_room_from_the_others_of_the_firm(firm, add):
    cap(firm, 2)
    first, blocked = add("test.locked", "key"), add("test.locked", "key")
    free = add()
    assert set(running()) == {first, free}
    assert row(blocked).waiting


@pytest.mark.parametrize("end", ["release", "retry", "rescue"])
def test_room_comes_back_however_an_attempt_ends(firm, add, end, settled_database):
    cap(firm, 1)
    first, second = add(), add()
    sweep()
    worker_id = new_worker()
    held = take_one(worker_id)
    assert held.job_id == first
    assert held.admitted
    if end == "release":
        release([held], "because")
        released_capacity = ReleasedCapacity.of_jobs([held])
    elif end == "retry":
        released_capacity = finish(held, Retry(60.0, FAILURE)).released_capacity
    else:
        with later(3600):
            released_capacity = rescue(Random(1)).released_capacity
    with later(3700 if end == "rescue" else 0):
        assert not row(first).admitted
        assert admit(released_capacity) == 1
        # If the first job's claim was given back unused, that job still comes first.
        assert [one.job_id for one in take()] == [second if end == "retry" else first]


def test_many_waiting_groups_of_a_firm_all_get_their_turn(firm, add, monkeypatch):
    """Admission goes on after the group that released the room, so that no group is forgotten."""
    monkeypatch.setattr(candidates, "RELEASED_GROUPS", 3)
    cap(firm, 1)
    ids = {add("test.locked", f"key-{number:02}") for number in range(12)}
    sweep()
    done = set()
    while held := take():
        done.add(held[0].job_id)
        admit(finish(held[0], Completed({})).released_capacity)
    assert done == ids
