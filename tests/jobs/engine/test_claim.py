"""Claiming: which job is next, and which jobs are never claimed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from jobs.engine.admission import sweep
from jobs.engine.claim import claim
from jobs.engine.clock import database_now
from jobs.engine.fair_share import FairShare
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from tenants.models import Firm
from tests.factories.tenants import FirmFactory
from tests.queue_kit import change, later, new_worker, row, take, take_one

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def past():
    """Return times long ago, by number: the higher the later."""
    start = database_now() - timedelta(days=1)
    return lambda number: start + timedelta(seconds=number)


@pytest.mark.req("J-08", "J-09")
@pytest.mark.usefixtures("stopped_clock")
def test_a_claim_is_written_to_the_row_and_has_all_that_is_needed(firm, add):
    job_id = add(name="Ada", correlation_id="abc", priority=1)
    worker_id = new_worker()
    with later(10) as now:
        held = take_one(worker_id)
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.worker_id) == ("claimed", 1, worker_id)
    assert (stored.claimed_at, stored.started_at) == (now, None)
    assert (held.job_id, held.firm_id, held.worker_id) == (job_id, firm.pk, worker_id)
    assert (held.job_type, held.category, held.payload_version) == ("test.work", "sync", "1.0")
    assert (held.attempts, held.max_attempts, held.series, held.priority) == (1, 3, 1, 1)
    assert held.lease_token == stored.lease_token > 0
    assert '"Ada"' in held.payload
    assert held.scheduled_at == stored.scheduled_at
    assert held.waited_seconds == pytest.approx(10, abs=1)
    assert not held.cancel_requested


@pytest.mark.req("J-08")
def test_nobody_claims_what_is_held(add):
    ids = {add() for _ in range(5)}
    first = take(3)
    second = take(3)
    assert len(first) == 3
    assert {held.job_id for held in first} | {held.job_id for held in second} == ids
    assert take(3) == []


@pytest.mark.req("J-08")
def test_jobs_of_one_firm_come_by_priority_then_time_then_id(add, past):
    ordered = [
        add(priority=0, at=past(9)),
        add(priority=1, at=past(5)),
        *[add(priority=2, at=past(1)) for _ in range(3)],
        add(priority=2, at=past(2)),
        add(priority=3, at=past(0)),
    ]
    assert [take(1)[0].job_id for _ in ordered] == ordered


@pytest.mark.req("J-08")
def test_the_order_does_not_depend_on_the_order_of_arrival(add, past):
    late, early, middle = add(at=past(3)), add(at=past(1)), add(at=past(2))
    assert [held.job_id for held in take(10)] == [early, middle, late]


@pytest.mark.req("J-08")
def test_one_batch_has_one_priority(add):
    low, critical = add(priority=3), add(priority=0)
    assert [held.job_id for held in take(10)] == [critical]
    assert [held.job_id for held in take(10)] == [low]


@pytest.mark.req("J-08", "J-23")
def test_firms_share_a_priority(firm, other_firm, add, past):
    third = FirmFactory(name="Initech", slug="initech")
    firms = sorted([firm, other_firm, third], key=lambda one: one.pk)
    jobs = {
        one.pk: [add(firm=one, at=past(10 * place + number)) for number in range(3)]
        for place, one in enumerate(firms)
    }
    expected = [jobs[one.pk][lap] for lap in range(3) for one in firms]
    assert [held.job_id for held in take(9)] == expected


@pytest.mark.req("J-08", "J-23")
def test_the_cursor_stays_where_the_last_batch_ended(firm, other_firm, add, past):
    third = FirmFactory(name="Initech", slug="initech")
    firms = sorted([firm, other_firm, third], key=lambda one: one.pk)
    for one in firms:
        for number in range(4):
            add(firm=one, at=past(number))
    fair_share, worker_id = FairShare(), new_worker()
    served = [claim(worker_id, 1, fair_share)[0].firm_id for _ in range(12)]
    assert served == [one.pk for one in firms] * 4


@pytest.mark.req("J-23")
@pytest.mark.parametrize("batch", [1, 2, 5, 7])
def test_a_backlog_of_one_firm_delays_another_by_one_visit(firm, other_firm, add, past, batch):
    enqueue_many([EnqueueSpec("test.work", at=past(number)) for number in range(60)], firm=firm)
    fair_share, worker_id = FairShare(), new_worker()
    claim(worker_id, batch, fair_share)
    light = add(firm=other_firm)
    waited = 0
    while light not in {held.job_id for held in claim(worker_id, batch, fair_share)}:
        waited += 1
    assert waited <= 1


@pytest.mark.req("J-23")
def test_a_batch_is_shared_equally(firm, other_firm, add):
    for one in (firm, other_firm):
        enqueue_many([EnqueueSpec("test.work")] * 10, firm=one)
    batch = take(8)
    assert sorted(held.firm_id for held in batch) == [firm.pk] * 4 + [other_firm.pk] * 4


@pytest.mark.req("J-23")
def test_each_priority_has_its_own_cursor(firm, other_firm, add):
    first, second = sorted([firm, other_firm], key=lambda one: one.pk)
    for one in (first, second):
        add(firm=one, priority=1)
        add(firm=one, priority=2)
    fair_share, worker_id = FairShare(), new_worker()
    served = [claim(worker_id, 1, fair_share)[0] for _ in range(4)]
    assert [(held.priority, held.firm_id) for held in served] == [
        (1, first.pk), (1, second.pk), (2, first.pk), (2, second.pk),
    ]  # fmt: skip


@pytest.mark.req("J-08")
@pytest.mark.usefixtures("stopped_clock")
def test_the_future_is_not_claimed_until_it_comes(add):
    job_id = add(delay=60)
    with later(58):
        assert take() == []
    with later(61):
        assert [held.job_id for held in take()] == [job_id]


@pytest.mark.req("J-08")
def test_the_expired_is_never_claimed(add):
    job_id = add(expires_at=database_now() + timedelta(seconds=30))
    with later(31):
        assert take() == []
    assert [held.job_id for held in take()] == [job_id]


@pytest.mark.req("J-08")
@pytest.mark.parametrize(
    "state",
    [
        {"status": "completed", "ready": False},
        {"status": "dlq", "ready": False},
        {"status": "processing"},
        {"ready": False, "waiting": True},
        {"attempts": 3},
    ],
)
def test_what_is_over_held_waiting_or_used_up_is_not_claimed(add, state):
    change(add(), **state)
    assert take() == []


@pytest.mark.req("J-08", "W-01")
def test_a_worker_may_serve_some_categories_or_types_only(add):
    sync, export, once = add(), add("test.other"), add("test.once")
    assert take(categories=("documents",)) == []
    assert take(job_types=("test.nothing",)) == []
    assert [held.job_id for held in take(categories=("export", "documents"))] == [export]
    assert [held.job_id for held in take(categories=("sync",), job_types=("test.once",))] == [once]
    assert [held.job_id for held in take(job_types=("test.work", "test.other"))] == [sync]


@pytest.mark.req("J-08", "W-01")
def test_a_filter_passes_other_priorities_and_firms(firm, other_firm, add):
    add("test.other", priority=0)
    wanted = add(firm=other_firm, priority=3)
    assert [held.job_id for held in take(categories=("sync",))] == [wanted]


@pytest.mark.req("J-09")
def test_tokens_grow_with_every_claim(add):
    for _ in range(4):
        add()
    tokens = [held.lease_token for _ in range(2) for held in take(2)]
    assert len(set(tokens)) == 4
    assert min(tokens[2:]) > max(tokens[:2]) > 0


@pytest.mark.req("J-08")
def test_a_claim_that_rolls_back_took_nothing(add):
    job_id = add()
    with transaction.atomic():
        assert take_one().job_id == job_id
        transaction.set_rollback(True)
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.lease_token) == ("pending", 0, 0)


@pytest.mark.req("J-08", "J-14")
def test_a_job_taken_alone_counts_as_started_where_the_caller_starts_it(firm, add):
    job_id = add()
    with later(10) as now:
        (held,) = claim(new_worker(), 10, FairShare(), starts=True)
    assert held.started
    assert (row(job_id).started_at, row(job_id).claimed_at) == (now, now)


@pytest.mark.req("J-14")
@pytest.mark.parametrize(
    ("others", "deaths", "starts"), [(0, 0, False), (1, 0, True), (0, 2, True)]
)
def test_no_other_claim_counts_as_started(add, others, deaths, starts):
    ids = [add() for _ in range(1 + others)]
    for job_id in ids:
        change(job_id, deaths=deaths)
    taken = claim(new_worker(), 10, FairShare(), starts=starts)
    assert [held.started for held in taken] == [False] * len(ids)
    assert [row(job_id).started_at for job_id in ids] == [None] * len(ids)


@pytest.mark.req("J-14")
def test_two_jobs_of_a_capped_firm_and_of_another_do_not_count_as_started(firm, add):
    other = FirmFactory(name="Capped", slug="capped")
    Firm.objects.filter(pk=other.pk).update(running_cap=5)
    ids = [add(), enqueue("test.work", {"name": "A"}, firm=other).job_id]
    sweep()
    taken = claim(new_worker(), 10, FairShare(), starts=True)
    assert {held.job_id: held.started for held in taken} == dict.fromkeys(ids, False)
