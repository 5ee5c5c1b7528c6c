"""Lock slots: which jobs get one, in what order, and when a job gives its slot up."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from jobs.engine import candidates
from jobs.engine.admission import admit, sweep
from jobs.engine.clock import database_now
from jobs.engine.insert import dispatch, dispatch_groups, insert
from jobs.engine.locks import free_orphan_slots
from jobs.engine.new_job import NewJob
from jobs.engine.outcomes import Completed, Settlement
from jobs.engine.prune import expire
from jobs.engine.settle import settle
from jobs.engine.transactions import fetch, in_transaction
from jobs.models import ConcurrencyLock, JobQueue
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.queue_kit import change, finish, later, locks, row, rows, take, take_one
from tests.support.backlog import analyze
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-20")]


def ready() -> list[bool]:
    """Return, in order of id, whether each keyed job was admitted."""
    return [job.ready for job in rows(JobQueue)]


def hold(firm: Firm, key: str, *, expires_at: datetime | None) -> ConcurrencyLock:
    """Let a user hold the lock."""
    with firm_scope(firm):
        lock: ConcurrencyLock = ConcurrencyLock.objects.create(
            lock_key=key, holder_id="user:ada", expires_at=expires_at, fencing_token=1
        )
        return lock


def test_a_keyed_job_gets_its_slot_right_after_the_commit(firm, add):
    with transaction.atomic():
        job_id = add("test.locked", "key")
        assert (row(job_id).ready, row(job_id).waiting) == (False, True)
        assert locks() == []
    assert (row(job_id).ready, row(job_id).waiting) == (True, False)
    (lock,) = locks()
    assert (lock.firm_id, lock.lock_key, lock.slot) == (firm.pk, "key", 0)
    assert (lock.holder_id, lock.expires_at) == (f"job:{job_id}", None)
    assert lock.fencing_token > 0


def test_one_at_a_time(add):
    first, second = add("test.locked", "key"), add("test.locked", "key")
    assert [one.job_id for one in take()] == [first]
    assert sweep() == 0
    assert take() == []
    assert len(locks()) == 1
    assert row(second).attempts == 0


def test_the_next_one_is_admitted_when_the_first_is_over(firm, add):
    first, second = add("test.locked", "key"), add("test.locked", "key")
    report = finish(take_one(), Completed({}))
    assert admit(report.released_capacity) == 1
    assert take_one().job_id == second
    assert row(first).status == "completed"


@pytest.mark.req("J-21")
def test_each_holding_has_a_higher_token(firm, add):
    for _ in range(3):
        add("test.locked", "key")
    tokens = []
    for _ in range(3):
        tokens.append(locks()[0].fencing_token)
        admit(finish(take_one(), Completed({})).released_capacity)
    assert tokens == sorted(set(tokens))


def test_as_many_as_the_type_says(add):
    ids = [add("test.two_at_once", "key") for _ in range(5)]
    assert ready() == [True, True, False, False, False]
    assert sorted(lock.slot for lock in locks()) == [0, 1]
    held = take(5)
    assert [one.job_id for one in held] == ids[:2]
    admit(finish(held[0], Completed({})).released_capacity)
    assert ready() == [False, True, True, False, False]
    assert sorted(lock.slot for lock in locks()) == [0, 1]


def test_keys_firms_and_unkeyed_jobs_do_not_hinder_one_another(firm, other_firm, add):
    add("test.locked", "key")
    blocked = add("test.locked", "key")
    free = {add("test.locked", "other"), add("test.locked", "key", firm=other_firm), add()}
    claimed = {one.job_id for one in take()}
    assert free < claimed
    assert blocked not in claimed


def test_the_sweep_goes_on_behind_groups_of_which_nothing_is_due(firm, add, monkeypatch):
    monkeypatch.setattr(candidates, "SWEEP_GROUPS", 1)
    add("test.locked", "a", at=database_now() + timedelta(hours=1))
    lock = hold(firm, "b", expires_at=None)
    due = add("test.locked", "b")
    with firm_scope(firm):
        lock.delete()
    assert sweep() == 1
    assert row(due).ready


def test_the_line_goes_by_priority_then_time_then_id(add):
    past = database_now() - timedelta(days=1)
    holder = add("test.locked", "key")
    third = add("test.locked", "key", at=past + timedelta(seconds=2))
    second = add("test.locked", "key", at=past + timedelta(seconds=1))
    fourth = add("test.locked", "key", at=past + timedelta(seconds=2))
    first = add("test.locked", "key", priority=0)
    order = []
    for _ in range(5):
        held = take_one()
        order.append(held.job_id)
        admit(finish(held, Completed({})).released_capacity)
    assert order == [holder, first, second, third, fourth]


def test_a_future_job_holds_no_slot(add):
    future = add("test.locked", "key", delay=60)
    assert locks() == []
    now_due = add("test.locked", "key")
    assert [one.job_id for one in take()] == [now_due]
    with later(61):
        assert sweep() == 0
    assert row(future).waiting


def test_the_sweep_admits_what_came_due(add):
    future = add("test.locked", "key", delay=60)
    assert sweep() == 0
    with later(61):
        assert sweep() == 1
        assert [one.job_id for one in take()] == [future]


def test_the_sweep_finds_every_key_that_has_work(firm, other_firm):
    for one in (firm, other_firm):
        specs = [EnqueueSpec("test.locked", {"name": f"key-{n % 7}"}) for n in range(21)]
        with transaction.atomic():
            enqueue_many(specs, firm=one)
            # The hooks are dropped, as by a crash between the commit and the admission.
            transaction.get_connection().run_on_commit.clear()
    assert locks() == []
    assert sweep() == 14
    assert sweep() == 0
    assert len({(lock.firm_id, lock.lock_key) for lock in locks()}) == 14


def test_an_enqueue_of_a_busy_key_touches_no_lock_row(firm, add):
    add("test.locked", "key")
    before = vars(locks()[0])
    add("test.locked", "key")
    after = vars(locks()[0])
    assert {k: v for k, v in after.items() if k != "_state"} == {
        k: v for k, v in before.items() if k != "_state"
    }


@pytest.mark.req("J-21")
@pytest.mark.usefixtures("stopped_clock")
def test_a_users_lock_keeps_jobs_out_until_it_expires(firm, add):
    lock = hold(firm, "key", expires_at=database_now() + timedelta(seconds=60))
    job_id = add("test.locked", "key")
    assert take() == []
    with later(59):
        assert sweep() == 0
    with later(61):
        assert sweep() == 1
        assert take_one().job_id == job_id
    (taken_over,) = locks()
    assert taken_over.pk != lock.pk
    assert (taken_over.holder_id, taken_over.expires_at) == (f"job:{job_id}", None)
    assert taken_over.fencing_token > lock.fencing_token


@pytest.mark.req("J-21")
def test_a_users_lock_without_end_is_never_taken_over(firm, add):
    hold(firm, "key", expires_at=None)
    add("test.locked", "key")
    with later(10**8):
        assert sweep() == 0


def test_a_jobs_own_lock_never_expires(add):
    first = add("test.locked", "key")
    add("test.locked", "key")
    with later(10**8):
        assert sweep() == 0
    assert locks()[0].holder_id == f"job:{first}"


def test_an_expired_job_gives_its_slot_to_the_next(add):
    first = add("test.locked", "key", expires_at=database_now() + timedelta(seconds=30))
    second = add("test.locked", "key")
    with later(31):
        assert expire() == 1
        assert sweep() == 1
        assert take_one().job_id == second
    assert row(first).status == "failed"


@pytest.mark.req("J-14")
@pytest.mark.parametrize("gone", [True, False])
def test_slots_that_a_lost_write_left_behind_are_freed(firm, add, gone):
    lost, alive = add("test.locked", "lost"), add("test.locked", "alive")
    user = hold(firm, "user", expires_at=None)
    if gone:
        with all_firms("test"):
            JobQueue.objects.filter(pk=lost).delete()
    else:
        change(lost, status="completed", ready=False)
    assert free_orphan_slots() == 1
    assert {lock.holder_id for lock in locks()} == {f"job:{alive}", user.holder_id}


def test_a_key_given_at_enqueue_counts_like_the_types_own(firm):
    first = enqueue("test.work", firm=firm, lock_key="key").job_id
    second = enqueue("test.locked", {"name": "key"}, firm=firm).job_id
    assert [one.job_id for one in take()] == [first]
    assert row(second).waiting


@pytest.mark.req("W-02")
def test_slots_of_many_keys_are_taken_and_freed_in_few_statements(
    firm: Firm, other_firm: Firm
) -> None:
    specs = [EnqueueSpec("test.work", lock_key=f"key {number % 700}") for number in range(1400)]
    with CaptureQueriesContext(connection) as stored:
        enqueue_many(specs, firm=firm)
    enqueue_many(specs[:3], firm=other_firm)
    assert len(stored) < 60
    assert len(locks()) == 703
    assert len({lock.fencing_token for lock in locks()}) == 703
    first = take(2000)
    assert len(first) == 703
    with CaptureQueriesContext(connection) as settled:
        report = settle([Settlement(one, Completed({}), 0.1) for one in first])
        assert admit(report.released_capacity) == 700
    assert len(settled) < 60
    second = take(2000)
    assert len(second) == 700
    assert not {one.job_id for one in first} & {one.job_id for one in second}
    settle([Settlement(one, Completed({}), 0.1) for one in second])
    assert locks() == []


def test_several_slots_of_a_key_are_given_out_together(firm: Firm) -> None:
    with firm_scope(firm):
        for slot, seconds in ((0, -1), (1, 60)):
            ConcurrencyLock.objects.create(
                lock_key="key",
                slot=slot,
                holder_id="user:ada",
                expires_at=database_now() + timedelta(seconds=seconds),
                fencing_token=1,
            )
    made = [
        NewJob(uuid7(), firm.pk, "sync", "test.work", "1.0", "{}", "c", 2, 3)._replace(
            lock_key="key", lock_limit=4
        )
        for _ in range(5)
    ]
    insert(made)
    dispatch(dispatch_groups(made))
    # Of the two slots that were taken before, one is still held, and the time of the other is over.
    assert ready() == [True] * 3 + [False] * 2
    assert {lock.slot: lock.holder_id for lock in locks()} == {
        0: f"job:{made[0].job_id}",
        1: "user:ada",
        2: f"job:{made[1].job_id}",
        3: f"job:{made[2].job_id}",
    }


@pytest.mark.parametrize("other", ["ahead", "last"])
def test_what_is_taken_of_one_key_is_not_missing_from_another(firm: Firm, other: str) -> None:
    """The sweep admits jobs of both keys together: one key has two slots, of which one is taken."""
    first, second, third = (
        NewJob(uuid7(), firm.pk, "sync", "test.work", "1.0", "{}", "c", 2, 3)._replace(
            lock_key=key, lock_limit=2
        )
        for key in ("between", "between", other)
    )
    insert([first])
    assert sweep() == 1
    insert([second, third])
    assert sweep() == 2
    assert {(lock.lock_key, lock.slot) for lock in locks()} == {
        ("between", 0),
        ("between", 1),
        (other, 0),
    }


@postgresql_only
def test_slots_are_freed_by_the_key_of_the_jobs_table(firm: Firm) -> None:
    """The statement finds the job of each lock by its primary key, not by reading all jobs."""
    # A table of a few pages would rightly be read as a whole, so this one is larger.
    enqueue_many(
        [EnqueueSpec("test.work", lock_key=f"key {n % 50}") for n in range(2000)], firm=firm
    )
    analyze()
    with CaptureQueriesContext(connection) as queries:
        assert free_orphan_slots() == 0
    (sql,) = [one["sql"] for one in queries if "DELETE FROM jobs_concurrencylock" in one["sql"]]
    plan = in_transaction(lambda: fetch("EXPLAIN " + sql.replace("%", "%%"), []))
    assert any("jobs_jobqueue_pkey" in line for (line,) in plan)
