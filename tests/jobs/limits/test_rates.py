"""Rate limits: how many jobs of a firm start in a time; waiting uses no attempt."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from jobs.engine.admission import admit, sweep
from jobs.engine.clock import stopped_at
from jobs.engine.demotion import demote
from jobs.engine.lease import mark_processing
from jobs.engine.outcomes import Completed, Released
from jobs.engine.release import release
from jobs.errors import LimitInvalid, UnknownJob
from jobs.models import RateBucket, RateLimit
from jobs.queue import clear_rate_limit, pause, set_rate_limit
from jobs.states import CountedBy
from jobs.testing.run import run_maintenance
from tenants.models import AuditEntry, Firm
from tests.queue_kit import finish, locks, row, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-24")]


def starts(moment: datetime, seconds: float) -> int:
    """Sweep, claim and complete at that time; return how many jobs that were."""
    with stopped_at(moment + timedelta(seconds=seconds)):
        sweep()
        held = take(100)
        for one in held:
            finish(one, Completed({}))
        # The next sweep sees that these jobs have ended.
        sweep()
        return len(held)


def test_a_burst_at_first_then_as_time_goes(add, now):
    set_rate_limit("test.work", 2, 10, burst=3)
    ids = [add() for _ in range(9)]
    assert [starts(now, seconds) for seconds in (0, 1, 4.9, 5.1, 9.9, 10.2)] == [3, 0, 0, 1, 0, 1]
    assert starts(now, 1000) == 3
    assert [row(job_id).attempts for job_id in ids] == [1] * 8 + [0]


def test_waiting_for_a_token_uses_no_attempt(add, now):
    set_rate_limit("test.work", 1, 60)
    ids = [add(), add()]
    assert [starts(now, seconds) for seconds in range(0, 50, 10)] == [1, 0, 0, 0, 0]
    assert (row(ids[1]).attempts, row(ids[1]).status, row(ids[1]).waiting) == (0, "pending", True)


def test_each_firm_has_its_own_bucket_and_other_types_have_none(firm, other_firm, add, now):
    set_rate_limit("test.work", 1, 60)
    for _ in range(3):
        add()
        add(firm=other_firm)
        add("test.other")
    assert starts(now, 0) == 2 + 3
    assert starts(now, 1) == 0
    assert {bucket.firm_id for bucket in rows(RateBucket)} == {firm.pk, other_firm.pk}


def test_a_firms_own_limit_stands_before_the_one_for_everywhere(firm, other_firm, add, now):
    set_rate_limit("test.work", 1, 60)
    set_rate_limit("test.work", 5, 60, firm=firm)
    for _ in range(6):
        add()
        add(firm=other_firm)
    assert starts(now, 0) == 5 + 1
    clear_rate_limit("test.work", firm=firm)
    set_rate_limit("test.work", 1, 6000, firm=other_firm)
    assert starts(now, 61) == 1


def test_the_bucket_is_never_fuller_than_its_burst(add, now):
    set_rate_limit("test.work", 1, 1, burst=2)
    for _ in range(6):
        add()
    assert starts(now, 0) == 2
    assert starts(now, 3600) == 2


def test_a_clock_that_is_put_back_holds_the_rate_up_for_no_longer_than_a_token_takes(add, now):
    set_rate_limit("test.work", 1, 10)
    for _ in range(4):
        add(at=now - timedelta(hours=2))
    assert [starts(now, seconds) for seconds in (0, 5)] == [1, 0]
    assert [starts(now, seconds - 3600) for seconds in (0, 11, 12, 22)] == [0, 1, 0, 1]


def test_what_was_let_through_and_waits_for_a_worker_counts_against_the_burst(add, now):
    """Otherwise an hour without a worker would end with an hour's starts at once."""
    set_rate_limit("test.work", 1, 1, burst=2)
    for _ in range(10):
        add()
    for minute in range(60):
        with stopped_at(now + timedelta(minutes=minute)):
            sweep()
    with stopped_at(now + timedelta(minutes=60)):
        held = take(100)
        assert len(held) == 2
        mark_processing(held)
        assert sweep() == 0
        assert take(100) == []
    assert starts(now, 3600 + 1.1) == 1


COUNTS = [
    {},
    {"counted_by": CountedBy.KEY},
    {"counted_by": CountedBy.KEY, "job_type": None},
    {"counted_by": CountedBy.ALL_FIRMS},
]


@pytest.mark.parametrize(
    "counted", COUNTS, ids=lambda counted: "-".join(map(str, counted.values()))
)
def test_after_a_quiet_time_a_burst_starts_at_once(add, now, counted):
    """Though nothing waited for the tokens when the last jobs started."""
    set_rate_limit(**{"job_type": "test.mailbox", "amount": 2, "per_seconds": 60, **counted})
    for number in range(3):
        with stopped_at(now + timedelta(seconds=61 * number)):
            for _ in range(2):
                add("test.mailbox", "anna")
            sweep()
            assert [finish(one, Completed({})).stale for one in take(100)] == [[], []]
            run_maintenance()


def test_buckets_that_lost_their_limit_keep_no_other_from_its_burst(add, now, monkeypatch):
    monkeypatch.setattr("jobs.engine.token_bucket.BATCH", 1)
    for job_type in ("test.other", "test.work"):
        set_rate_limit(job_type, 1, 60)
        with stopped_at(now):
            add(job_type)
            sweep()
            finish(take(1)[0], Completed({}))
        now += timedelta(seconds=1)
    clear_rate_limit("test.other", firm=None)
    run_maintenance()
    assert {one.job_type: one.granted for one in rows(RateBucket)}["test.work"] == 0


def test_what_is_given_back_unstarted_keeps_its_token(add, now):
    """A busy worker would otherwise use up the tokens of jobs that it never starts."""
    set_rate_limit("test.work", 1, 3600)
    job_id = add()
    sweep()
    for _ in range(2):
        (held,) = take(1)
        assert list(release([held], "another worker may start it sooner")) == [job_id]
        assert (row(job_id).ready, row(job_id).waiting, row(job_id).admitted) == (True, False, True)
    other = add()
    assert sweep() == 0
    (held,) = take(2)
    # Once it has started, it needs a token like any other.
    finish(held, Released("worker stopped"), ran_seconds=4)
    assert (row(job_id).waiting, row(other).waiting) == (True, True)
    assert (starts(now, 0), starts(now, 3601)) == (0, 1)


def test_what_is_given_back_while_it_is_paused_waits(add):
    set_rate_limit("test.work", 1, 3600)
    job_id = add()
    sweep()
    (held,) = take(1)
    pause(job_type="test.work", reason="x")
    release([held], "another worker may start it sooner")
    assert row(job_id).waiting


def test_what_has_not_started_counts_against_the_burst_after_a_quiet_time(add, now):
    set_rate_limit("test.work", 2, 60)
    for _ in range(2):
        add()
    sweep()
    finish(take(1)[0], Completed({}))
    with stopped_at(now + timedelta(minutes=10)):
        run_maintenance()
        assert [bucket.granted for bucket in rows(RateBucket)] == [2]
        add()
        assert sweep() == 0
        assert len(take(100)) == 1


def test_what_was_ready_before_the_limit_is_held_too(add, now):
    for _ in range(5):
        add()
    set_rate_limit("test.work", 2, 60)
    with stopped_at(now):
        assert take(100) == []
        demote()
    assert starts(now, 0) == 2


def test_what_a_cap_let_through_must_pass_a_later_limit(firm, add, now):
    Firm.objects.filter(pk=firm.pk).update(running_cap=5)
    ids = [add() for _ in range(5)]
    assert sweep() == 5
    set_rate_limit("test.work", 1, 60)
    assert [row(job_id).ready for job_id in ids] == [False] * 5
    assert starts(now, 0) == 1


def test_without_the_limit_all_of_it_runs(add, now):
    set_rate_limit("test.work", 1, 60)
    for _ in range(5):
        add()
    assert starts(now, 0) == 1
    clear_rate_limit("test.work", reason="done")
    assert starts(now, 1) == 4


@pytest.mark.req("J-20", "J-23")
def test_limits_hold_together(firm, add, now):
    """A cap of three, a rate of two a minute for the type, and a lock per key hold together."""
    Firm.objects.filter(pk=firm.pk).update(running_cap=3)
    set_rate_limit("test.locked", 2, 60)
    keyed = [add("test.locked", f"key-{number % 2}") for number in range(6)]
    others = [add() for _ in range(3)]
    with stopped_at(now):
        sweep()
        held = take(100)
        assert {one.job_id for one in held} == {keyed[0], keyed[1], others[0]}
        assert len(locks()) == 2
        # Room and a slot are free again, but no token is left, so only a job of the other type
        # runs.
        assert admit(finish(held[0], Completed({})).released_capacity) == 1
        assert [one.job_id for one in take(100)] == [others[1]]


def test_a_token_is_not_spent_on_what_is_paused(add, now):
    set_rate_limit("test.work", 1, 60)
    add()
    pause(job_type="test.work", reason="x")
    with stopped_at(now):
        assert sweep() == 0
    assert rows(RateBucket) == []


def test_limits_are_in_the_log(system_firm):
    set_rate_limit("test.work", 2, 60)
    set_rate_limit("test.work", 3, 60)
    clear_rate_limit("test.work", reason="why")
    entries = [
        (one.act, one.before.get("amount"), one.after.get("amount")) for one in rows(AuditEntry)
    ]
    assert entries == [
        ("rate_limit.set", None, 2),
        ("rate_limit.set", 2, 3),
        ("rate_limit.clear", 3, None),
    ]
    assert rows(RateLimit) == []


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("test.wrok", 1, 1), "job_type"),
        (("test.work", 0, 1), "amount"),
        (("test.work", 2**31, 1), "amount"),
        (("test.work", 2.5, 1), "amount"),
        (("test.work", True, 1), "amount"),
        (("test.work", 1, 0), "per_seconds"),
        (("test.work", 1, 1e-300), "per_seconds"),
        (("test.work", 1, 1e300), "per_seconds"),
        (("test.work", 1, float("nan")), "per_seconds"),
        (("test.work", 1, float("inf")), "per_seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(system_firm, arguments, field):
    with pytest.raises(LimitInvalid) as refusal:
        set_rate_limit(*arguments)
    assert {fault["field"] for fault in refusal.value.errors} == {field}
    with pytest.raises(UnknownJob):
        clear_rate_limit("test.work")
