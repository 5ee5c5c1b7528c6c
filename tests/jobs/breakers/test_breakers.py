"""Circuit breakers: jobs that keep failing alike wait; one is tried, and then the others follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.engine.breakers import PROBE_TIMEOUT_SECONDS
from jobs.engine.outcomes import DeadLettered, Released, Settlement, Snoozed
from jobs.engine.release import release
from jobs.engine.settle import settle
from jobs.models import CircuitBreaker, JobQueue
from jobs.queries.why_waiting import WaitCode
from jobs.queue import acquire_lock, cancel, why_waiting
from jobs.states import BreakerState, DeadReason
from tenants.scope import all_firms
from tests.jobs.breakers.kit import (
    DOWN,
    FAILS,
    WORKS,
    attempt,
    breaker,
    chores,
    fails_with,
    trip,
)
from tests.queue_kit import finish, later, row, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-07")]


def waits(job_id):
    stored = row(job_id)
    return (stored.status, stored.waiting, stored.ready) == ("pending", True, False)


def test_where_all_goes_well_nothing_is_written(add):
    add(6)
    attempt([WORKS] * 6)
    assert rows(CircuitBreaker) == []


def test_types_that_declare_none_have_none(add):
    add(6, job_type="sturdy")
    attempt([FAILS] * 6)
    assert rows(CircuitBreaker) == []


def test_it_opens_when_one_failure_makes_up_the_rate(add):
    add(4)
    held = take(4)
    for claim in held[:3]:
        finish(claim, FAILS)
        assert breaker().state == BreakerState.CLOSED
    finish(held[3], FAILS)
    opened = breaker()
    assert (opened.state, opened.trips, opened.fingerprint) == ("open", 1, DOWN.fingerprint)
    assert (opened.probe_at - opened.opened_at).total_seconds() == pytest.approx(30, abs=0.01)


def test_jobs_that_end_in_one_batch_count_one_by_one(add):
    add(6)
    outcomes = [FAILS, WORKS, WORKS, WORKS, FAILS, WORKS]
    settle([Settlement(*pair, 0.5) for pair in zip(take(6), outcomes, strict=True)])
    stored = breaker()
    assert (stored.state, stored.attempts) == ("closed", 6)
    assert stored.failures == {DOWN.fingerprint: 2}


def test_a_dead_letter_is_a_failure_too(add):
    add(4)
    attempt([DeadLettered(DeadReason.FATAL, DOWN)] * 4)
    assert breaker().state == BreakerState.OPEN


def test_different_failures_do_not_add_up(add):
    add(8)
    attempt([fails_with(f"{number:016x}") for number in range(8)])
    assert (breaker().state, breaker().attempts) == ("closed", 8)


def test_what_was_put_off_or_given_back_does_not_count(add):
    add(7)
    attempt([FAILS, Snoozed(None, 60), Released("because"), FAILS, FAILS])
    assert (breaker().state, breaker().attempts) == ("closed", 3)


def test_counting_begins_anew_with_each_window(add):
    add(7)
    attempt([FAILS] * 3)
    with later(61):
        attempt([FAILS] * 3)
        assert (breaker().state, breaker().attempts) == ("closed", 3)
        attempt([FAILS])
        assert breaker().state == BreakerState.OPEN


@pytest.mark.usefixtures("stopped_clock")
def test_a_clock_that_is_put_back_does_not_lengthen_the_window(add):
    add(3)
    attempt([FAILS] * 3)
    with later(-3600):
        add(3)
        attempt([FAILS] * 3)
        assert (breaker().state, breaker().attempts) == ("closed", 3)
    with later(-3539):
        add(3)
        attempt([FAILS] * 3)
        assert (breaker().state, breaker().attempts) == ("closed", 3)


@pytest.mark.usefixtures("stopped_clock")
def test_a_clock_that_goes_back_by_seconds_forgets_no_failure(add):
    add(3)
    attempt([FAILS] * 3)
    with later(-5):
        add(1)
        attempt([FAILS])
        assert breaker().state == "open"


def test_an_open_breaker_holds_back_the_jobs_of_its_type_and_firm_and_uses_no_attempt(
    add, other_firm
):
    before = add(6)
    failed = trip()
    waiting, others = add(1)[0], [*add(1, firm=other_firm), *add(1, job_type="frail.too")]
    assert waits(waiting)
    # Jobs that were ready when the breaker opened, and jobs that failed, are held back as well.
    assert {claim.job_id for claim in take(20)} == set(others)
    chores()
    assert all(waits(job_id) for job_id in [*before, waiting])
    tried = {claim.job_id for claim in failed}
    assert {row(job_id).attempts for job_id in before if job_id not in tried} == {0}
    assert {row(job_id).attempts for job_id in tried} == {1}


def test_what_runs_when_it_opens_goes_on_and_decides_nothing(add):
    add(6)
    held = take(6)
    for claim in held[:4]:
        finish(claim, FAILS)
    finish(held[4], WORKS)
    finish(held[5], FAILS)
    assert row(held[4].job_id).status == "completed"
    assert (breaker().state, breaker().trips) == ("open", 1)


@pytest.mark.usefixtures("stopped_clock")
def test_after_the_cooldown_one_job_is_tried_and_when_it_completes_all_follow(add):
    add(7)
    trip()
    with later(29):
        chores()
        assert take() == []
    with later(31):
        chores()
        (probe,) = take()
        assert (breaker().state, breaker().probe_job_id) == ("half_open", probe.job_id)
        chores()
        assert take() == []
        finish(probe, WORKS)
        assert (breaker().state, breaker().trips) == ("closed", 0)
        chores()
        assert len(take()) == 6


@pytest.mark.usefixtures("stopped_clock")
def test_a_clock_that_is_put_back_does_not_keep_it_open(add):
    add(4)
    trip()
    with later(-3600):
        waiting = add(1)
        chores()
        assert [probe.job_id for probe in take()] == waiting
        assert breaker().state == "half_open"


@pytest.mark.usefixtures("stopped_clock")
def test_a_clock_that_is_put_back_while_a_probe_is_to_start_does_not_keep_it_half_open(add):
    add(5)
    trip()
    with later(31):
        chores()
        assert breaker().state == "half_open"
    with later(-3600):
        # At this earlier time the probe is not due yet.
        assert take() == []
        waiting = add(1)
        chores()
        assert [probe.job_id for probe in take()] == waiting


def test_a_probe_that_fails_opens_it_for_twice_as_long(add):
    add(5)
    trip()
    moment = 31
    for trips in (2, 3, 4):
        with later(moment):
            chores()
            (probe,) = take()
            finish(probe, fails_with("another"))
            chores()
            assert take() == []
        opened = breaker()
        assert (opened.state, opened.trips, opened.fingerprint) == ("open", trips, "another")
        cooldown = (opened.probe_at - opened.opened_at).total_seconds()
        assert cooldown == pytest.approx(30 * 2 ** (trips - 1), abs=0.01)
        moment += cooldown + 1


def test_a_probe_that_is_canceled_is_replaced(add):
    first, second = add(6)[-2:]
    trip()
    with later(31):
        chores()
        assert breaker().probe_job_id == first
        cancel(first)
        chores()
        assert breaker().probe_job_id == second
        assert [claim.job_id for claim in take()] == [second]


def test_a_probe_that_cannot_start_makes_room_for_another(firm, add):
    add(4, job_type="frail.keyed", name="b")
    for _ in range(4):
        chores()
        attempt([FAILS])
    (stuck,) = add(1, job_type="frail.keyed", name="a", priority=0)
    assert acquire_lock("a", 3_600, firm=firm)
    with later(31):
        chores()
        assert breaker().probe_job_id == stuck
        assert take() == []
    with later(31 + PROBE_TIMEOUT_SECONDS + 1):
        chores()
        (tried,) = take()
        assert tried.job_id == breaker().probe_job_id != stuck


def test_a_probe_at_work_is_waited_for(add):
    add(6)
    trip()
    with later(31):
        chores()
        (probe,) = take()
    with later(31 + 10 * PROBE_TIMEOUT_SECONDS):
        chores()
        assert breaker().probe_job_id == probe.job_id
        assert take() == []
        finish(probe, WORKS)
        assert breaker().state == BreakerState.CLOSED


def test_a_probe_that_was_given_back_is_still_the_probe(add):
    add(6)
    trip()
    with later(31):
        chores()
        (probe,) = take()
        release([probe], "worker stopped")
        chores()
        assert [claim.job_id for claim in take()] == [probe.job_id]


def test_with_nothing_to_try_the_next_job_to_come_is_tried(add):
    add(4)
    attempt([DeadLettered(DeadReason.FATAL, DOWN)] * 4)
    with later(31):
        chores()
        assert breaker().state == BreakerState.OPEN
        (new,) = add(1)
        chores()
        assert [claim.job_id for claim in take()] == [new]


def test_a_job_that_waits_for_a_breaker_says_so(add):
    add(6)
    trip()
    chores()
    (waiting,) = add(1)
    with all_firms("test"):
        told = [reason for reason in why_waiting(row(waiting)) if reason.code is WaitCode.BREAKER]
    assert [reason.until for reason in told] == [breaker().probe_at]
    assert DOWN.fingerprint in told[0].detail
    with later(31):
        chores()
        with all_firms("test"):
            of_probe = why_waiting(row(breaker().probe_job_id))
            of_other = why_waiting(row(waiting))
        assert WaitCode.BREAKER not in {reason.code for reason in of_probe}
        (told,) = [reason for reason in of_other if reason.code is WaitCode.BREAKER]
        probe = breaker().probe_job_id
        # The probe may be paused itself: nothing is being tried before it has been claimed.
        assert told.until is None
        assert told.detail.endswith(f"; job {probe} waits to be tried as a probe")
        assert [claim.job_id for claim in take()] == [probe]
        with all_firms("test"):
            of_other = why_waiting(row(waiting))
        (told,) = [reason for reason in of_other if reason.code is WaitCode.BREAKER]
        assert told.until is None
        assert told.detail.endswith(f"; job {probe} is being tried as a probe")
        with all_firms("test"):
            JobQueue.objects.filter(pk=probe).update(status="canceled")
            of_other = why_waiting(row(waiting))
        (told,) = [reason for reason in of_other if reason.code is WaitCode.BREAKER]
        assert told.detail.endswith("; the next job that is due will be tried as a probe")


def test_a_breaker_nobody_needs_is_forgotten(add, job_types, monkeypatch):
    add(5)
    attempt([FAILS])
    chores()
    assert breaker().attempts == 1
    with later(61):
        chores()
        assert rows(CircuitBreaker) == []
        attempt([FAILS] * 4)
        assert breaker().state == BreakerState.OPEN
        monkeypatch.setitem(job_types, "frail", replace(job_types["frail"], breaker=None))
        chores()
        assert rows(CircuitBreaker) == []
        chores()
        assert len(take()) == 5
