"""Why a job is not running: a line for each thing in its way, and nothing of other firms."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.engine.admission import sweep
from jobs.engine.clock import database_now
from jobs.errors import LONGEST_WAIT_SECONDS, UnknownJob
from jobs.models import JobQueue
from jobs.queries.why_waiting import OF_WORKERS, WaitCode, WaitReason
from jobs.queue import acquire_lock, pause, set_rate_limit, why_waiting
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.queue_kit import later, new_worker, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-25")]


def reasons(firm: Firm, job_id) -> list[WaitReason]:
    """Return the reasons that an operator of the firm, who sees only that firm, is told."""
    with firm_scope(firm):
        told = why_waiting(JobQueue.objects.get(pk=job_id))
    return [reason for reason in told if reason.code not in OF_WORKERS]


def test_nothing_is_in_the_way_of_a_job_that_may_run(firm, add):
    assert reasons(firm, add()) == []


def test_a_job_is_named_by_its_id_too(firm, other_firm, add):
    job_id = add()
    pause(firm=firm, reason="a bug")
    for name in (job_id, str(job_id)):
        assert why_waiting(name)[0].code == WaitCode.PAUSED
        with firm_scope(firm):
            assert "paused for firm acme" in why_waiting(name)[0].detail
        with firm_scope(other_firm), pytest.raises(UnknownJob, match="no job"):
            why_waiting(name)
    with pytest.raises(UnknownJob, match="'job 7' is not an id"):
        why_waiting("job 7")


def test_a_pause_says_what_it_means_why_and_until_when(firm, other_firm, system_firm, add):
    until = (database_now() + timedelta(hours=1)).replace(microsecond=0)
    pause(firm=firm, category="sync", reason="the mailbox is full", until=until)
    pause(job_type="test.work", reason="a bug")
    pause(firm=other_firm, reason="they did not pay")
    first, second = reasons(firm, add())
    assert (first.code, first.until) == (WaitCode.PAUSED, None)
    assert first.detail == "type test.work is paused for every firm: a bug"
    assert (second.code, second.until) == (WaitCode.PAUSED, until)
    assert second.detail == (
        "category sync is paused for firm acme by service: the mailbox is full"
    )


@pytest.mark.req("T-04")
def test_an_inactive_firm(firm, add):
    job_id = add()
    Firm.objects.filter(pk=firm.pk).update(active=False)
    assert [reason.code for reason in reasons(firm, job_id)] == [WaitCode.FIRM_INACTIVE]


def test_a_cap_says_how_many_run(firm, add):
    Firm.objects.filter(pk=firm.pk).update(running_cap=2)
    ids = [add() for _ in range(3)]
    assert reasons(firm, ids[2]) == []
    sweep()
    (reason,) = reasons(firm, ids[2])
    assert reason.code == WaitCode.CAPPED
    assert reason.detail == "firm acme may run 2 at once and is running 2"
    assert reasons(firm, ids[0]) == []


def test_a_rate_says_when_the_next_one_starts(firm, add):
    set_rate_limit("test.work", 2, 60)
    ids = [add() for _ in range(3)]
    with later(0) as moment:
        sweep()
        take()
        (reason,) = reasons(firm, ids[2])
        assert reason.code == WaitCode.RATE_LIMITED
        assert (
            reason.detail
            == "rate limit of test.work: at most 2 in 1 min; the next one may start in 30 s"
        )
        assert reason.until is not None
        assert abs(reason.until - moment - timedelta(seconds=30)) < timedelta(seconds=0.01)
    with later(31):
        assert reasons(firm, ids[2]) == []


@pytest.mark.req("J-24", "O-02")
def test_a_job_that_waits_for_ages_says_a_hundred_years(firm, add):
    set_rate_limit("test.work", 1, 2**31 - 1, burst=2**31 - 1)
    ids = [add(units=2**31 - 1) for _ in range(3)]
    with later(0) as moment:
        sweep()
        take()
        (second,), (third,) = reasons(firm, ids[1]), reasons(firm, ids[2])
    century = timedelta(seconds=LONGEST_WAIT_SECONDS)
    assert second.until is not None
    assert third.until is not None
    assert abs(second.until - moment - century) < timedelta(seconds=1)
    assert abs(third.until - moment - 2 * century) < timedelta(seconds=1)


@pytest.mark.req("J-24")
def test_a_job_deep_in_a_rate_limit_hears_its_own_time(firm, other_firm, add):
    set_rate_limit("test.work", 10, 60)
    for _ in range(30):
        add(firm=other_firm)
    ids = [add() for _ in range(60)]
    with later(0) as moment:
        sweep()
        take(40)
        reason = reasons(firm, ids[-1])[0]
    # 10 jobs have started; 49 come before this one, the first of them in 6 s, and one every 6 s.
    assert reason.detail == (
        "rate limit of test.work: at most 10 in 1 min; jobs ahead of it: 49; it may start in about 5 min"
    )
    assert reason.until is not None
    assert abs(reason.until - moment - timedelta(seconds=300)) < timedelta(seconds=0.1)


@pytest.mark.req("J-20")
def test_a_lock_says_who_holds_it_how_long_and_how_many_come_before(firm, add):
    holder, *_, last = [add("test.locked", "key") for _ in range(4)]
    (reason,) = reasons(firm, last)
    assert reason.code == WaitCode.LOCKED
    assert f"lock key has been held by job {holder} for " in reason.detail
    assert reason.detail.endswith("; jobs ahead of it: 2")


@pytest.mark.req("J-20")
def test_code_that_has_a_jobs_id_needs_no_scope_to_ask(firm, add):
    _, waits = [add("test.locked", "key") for _ in range(2)]
    assert WaitCode.LOCKED in {reason.code for reason in why_waiting(waits)}


@pytest.mark.req("J-20")
def test_a_lock_with_a_free_slot_is_not_in_the_way(firm, add):
    Firm.objects.filter(pk=firm.pk).update(running_cap=1)
    add("test.two_at_once", "key")
    second = add("test.two_at_once", "key")
    assert [reason.code for reason in reasons(firm, second)] == [WaitCode.CAPPED]


@pytest.mark.req("J-20")
def test_a_lock_that_is_over_is_not_in_the_way(firm, add):
    assert acquire_lock("key", 60, firm=firm)
    job_id = add("test.locked", "key")
    assert [reason.code for reason in reasons(firm, job_id)] == [WaitCode.LOCKED]
    with later(61):
        assert reasons(firm, job_id) == []


def test_all_that_is_in_the_way_is_told(firm, add):
    Firm.objects.filter(pk=firm.pk).update(active=False, running_cap=0)
    pause(firm=firm, reason="x")
    told = reasons(firm, add(delay=60))
    assert [reason.code for reason in told] == [
        WaitCode.SCHEDULED,
        WaitCode.FIRM_INACTIVE,
        WaitCode.PAUSED,
        WaitCode.CAPPED,
    ]


def test_a_live_worker_that_knows_no_such_type(firm, add):
    new_worker()
    with firm_scope(firm):
        (reason,) = why_waiting(JobQueue.objects.get(pk=add()))
    assert reason.code == WaitCode.UNKNOWN_TYPE
    assert reason.detail == "no live worker serves the type test.work (queue default)"
