"""Rates in units and by limit key: one mailbox uses up its own quota and no other mailbox's."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from jobs.engine.admission import sweep
from jobs.engine.clock import stopped_at
from jobs.engine.outcomes import Completed
from jobs.engine.token_bucket import IDLE_SECONDS, drop_idle_buckets
from jobs.errors import LimitInvalid, UnknownJob
from jobs.models import RateBucket, RateLimit
from jobs.queries.why_waiting import WaitCode
from jobs.queue import clear_rate_limit, set_rate_limit, why_waiting
from jobs.states import CountedBy
from tenants.models import Firm
from tests.queue_kit import finish, row, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-24")]


def started(moment: datetime, seconds: float = 0) -> list[str]:
    """Sweep, claim and complete at that time; return the limit keys of the jobs."""
    with stopped_at(moment + timedelta(seconds=seconds)):
        sweep()
        held = take(100)
        for one in held:
            finish(one, Completed({}))
        sweep()
        return sorted(one.limit_key or "" for one in held)


def test_a_job_takes_a_token_for_each_of_its_units(add, now):
    set_rate_limit("test.mailbox", 10, 10)
    add("test.mailbox", "a", units=6)
    add("test.mailbox", "b", units=5)
    assert started(now) == ["a"]
    assert started(now, 0.9) == []
    assert started(now, 1.1) == ["b"]


def test_jobs_that_follow_one_another_each_take_their_own_units(add, now):
    set_rate_limit("test.work", 6, 60)
    first, big, last = add(), add(units=5), add()
    with stopped_at(now):
        assert sweep() == 2
    assert [row(job_id).ready for job_id in (first, big, last)] == [True, True, False]


def test_a_job_of_more_units_than_the_burst_takes_the_whole_burst(add, now):
    set_rate_limit("test.mailbox", 1, 1, burst=4)
    add("test.mailbox", "a", units=100)
    add("test.mailbox", "b", units=1)
    assert started(now) == ["a"]
    assert started(now, 0.9) == []
    assert started(now, 1.1) == ["b"]


def test_tokens_are_saved_up_for_the_first_in_line(add, now):
    set_rate_limit("test.mailbox", 1, 1, burst=5)
    add("test.mailbox", "first", units=3)
    add("test.mailbox", "big", units=5)
    for _ in range(9):
        add("test.mailbox", "small")
    assert started(now) == ["first"]
    assert [started(now, seconds) for seconds in (1, 2, 2.9)] == [[], [], []]
    assert started(now, 3.1) == ["big"]
    assert started(now, 4.2) == ["small"]


def test_each_key_of_each_firm_has_a_bucket_of_its_own(firm, other_firm, add, now):
    set_rate_limit("test.mailbox", 2, 60, counted_by=CountedBy.KEY)
    for _ in range(3):
        for key in ("anna", "ben", ""):
            add("test.mailbox", key)
        add("test.mailbox", "anna", firm=other_firm)
    assert started(now) == ["", "", "", "anna", "anna", "anna", "anna", "ben", "ben"]
    assert started(now, 31) == ["anna", "anna", "ben"]
    assert {(one.firm_id, one.limit_key) for one in rows(RateBucket)} == {
        (firm.pk, "anna"),
        (firm.pk, "ben"),
        (other_firm.pk, "anna"),
    }


def test_types_share_the_bucket_of_a_key_when_the_limit_names_none(add, now):
    set_rate_limit(None, 4, 60, counted_by=CountedBy.KEY)
    add("test.mailbox", "anna", units=3)
    add("test.other", limit_key="anna")
    add("test.other", limit_key="anna")
    add("test.other", limit_key="ben")
    assert started(now) == ["anna", "anna", "ben"]
    assert started(now, 16) == ["anna"]


def test_several_limits_hold_together(firm, add, now):
    """Limits of three a minute for the type, of two for each key, and of one for a single key."""
    set_rate_limit("test.mailbox", 3, 60, firm=firm)
    set_rate_limit("test.mailbox", 2, 60, counted_by=CountedBy.KEY)
    set_rate_limit(None, 1, 60, counted_by=CountedBy.KEY, limit_key="carl")
    for key in ("anna", "carl", "ben"):
        for _ in range(3):
            add("test.mailbox", key)
    assert started(now) == ["anna", "anna", "carl"]
    assert started(now, 60.1) == ["anna", "ben", "carl"]


def test_the_most_specific_limit_of_a_kind_applies(firm, other_firm, add, now):
    by_key = {"counted_by": CountedBy.KEY}
    set_rate_limit("test.mailbox", 1, 60, **by_key)
    set_rate_limit("test.mailbox", 2, 60, limit_key="anna", **by_key)
    set_rate_limit("test.mailbox", 3, 60, firm=firm, **by_key)
    set_rate_limit("test.mailbox", 4, 60, firm=firm, limit_key="anna", **by_key)
    for _ in range(6):
        for key in ("anna", "ben"):
            add("test.mailbox", key)
            add("test.mailbox", key, firm=other_firm)
    with stopped_at(now):
        sweep()
        held = [(one.firm_id, one.limit_key) for one in take(100)]
    assert {kind: held.count(kind) for kind in held} == {
        (firm.pk, "anna"): 4,
        (firm.pk, "ben"): 3,
        (other_firm.pk, "anna"): 2,
        (other_firm.pk, "ben"): 1,
    }


def test_a_key_that_waits_does_not_hide_those_behind_it(add, now):
    set_rate_limit("test.mailbox", 1, 3600, counted_by=CountedBy.KEY)
    for _ in range(5):
        add("test.mailbox", "anna")
    add("test.mailbox", "ben")
    assert started(now) == ["anna", "ben"]


def test_what_a_cap_let_through_must_pass_a_later_limit_of_its_key(firm, add, now):
    Firm.objects.filter(pk=firm.pk).update(running_cap=5)
    ids = [add("test.mailbox", key) for key in ("anna", "anna", "ben", "")]
    assert sweep() == 4
    set_rate_limit("test.mailbox", 1, 60, counted_by=CountedBy.KEY, limit_key="anna")
    assert [row(job_id).ready for job_id in ids] == [False, False, True, True]
    assert started(now) == ["", "anna", "ben"]


def test_no_attempt_is_used_and_the_reason_names_key_and_limit(firm, add, now):
    set_rate_limit(None, 6, 60, counted_by=CountedBy.KEY)
    ids = [add("test.mailbox", "anna", units=5) for _ in range(2)]
    assert started(now) == ["anna"]
    with stopped_at(now):
        (reason,) = [one for one in why_waiting(row(ids[1])) if one.code == WaitCode.RATE_LIMITED]
    assert reason.detail == (
        "rate limit of all types with the limit key anna: at most 6 units in 1 min; this job of 5 units may start in 40 s"
    )
    assert reason.until == now + timedelta(seconds=40)
    assert row(ids[1]).attempts == 0


def test_limits_are_cleared_by_what_they_count(system_firm, add, now):
    set_rate_limit("test.mailbox", 1, 60, counted_by=CountedBy.KEY)
    set_rate_limit("test.mailbox", 1, 60, counted_by=CountedBy.KEY, limit_key="anna")
    set_rate_limit("test.mailbox", 5, 60, counted_by="key", limit_key="anna")
    with pytest.raises(UnknownJob):
        clear_rate_limit("test.mailbox")
    clear_rate_limit("test.mailbox", counted_by=CountedBy.KEY)
    (left,) = rows(RateLimit)
    assert (left.limit_key, left.amount, str(left)) == (
        "anna",
        5,
        "test.mailbox of anna: 5 in 60 s",
    )


def test_buckets_that_nobody_uses_are_deleted_once_they_are_full(add, now):
    """A bucket is kept until its jobs have started: a new one would let as many start again."""
    set_rate_limit("test.mailbox", 2, 60, counted_by=CountedBy.KEY)
    for _ in range(4):
        add("test.mailbox", "anna")
    with stopped_at(now):
        assert sweep() == 2
    with stopped_at(now + timedelta(seconds=IDLE_SECONDS - 1)):
        drop_idle_buckets()
    assert rows(RateBucket)[0].refilled_at == now
    with stopped_at(now + timedelta(seconds=IDLE_SECONDS + 1)):
        # The bucket is still empty, because two jobs were admitted and have not started.
        drop_idle_buckets()
        (bucket,) = rows(RateBucket)
        assert (bucket.tokens, bucket.granted) == (0, 2)
        for one in take(100):
            finish(one, Completed({}))
    with stopped_at(now + timedelta(seconds=2 * IDLE_SECONDS + 2)):
        drop_idle_buckets()
        assert [one.granted for one in rows(RateBucket)] == [0]
    with stopped_at(now + timedelta(seconds=3 * IDLE_SECONDS + 3)):
        drop_idle_buckets()
        assert rows(RateBucket) == []
        assert started(now, 3 * IDLE_SECONDS + 3) == ["anna", "anna"]


@pytest.mark.parametrize(
    ("arguments", "options", "fields"),
    [
        ((None, 1, 1), {}, {"job_type"}),
        (("test.work", 1, 1), {"counted_by": "fimr"}, {"counted_by"}),
        (("test.work", 1, 1), {"limit_key": "anna"}, {"limit_key"}),
        (("test.work", 1, 1), {"limit_key": "x" * 201, "counted_by": "key"}, {"limit_key"}),
        ((None, 0, 1), {"counted_by": "all_firms"}, {"job_type", "amount"}),
        (("test.work", 1, 1), {"counted_by": "all_firms", "limit_key": "x"}, {"limit_key"}),
    ],
)
def test_what_makes_no_sense_is_refused(system_firm, arguments, options, fields):
    with pytest.raises(LimitInvalid) as refusal:
        set_rate_limit(*arguments, **options)
    assert {fault["field"] for fault in refusal.value.errors} == fields


def test_one_firm_cannot_limit_all_firms(firm):
    with pytest.raises(LimitInvalid) as refusal:
        set_rate_limit("test.work", 1, 1, firm=firm, counted_by=CountedBy.ALL_FIRMS)
    assert {fault["field"] for fault in refusal.value.errors} == {"counted_by"}
