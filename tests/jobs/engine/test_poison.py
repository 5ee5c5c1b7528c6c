"""Deaths: what happens to a job at the first, the second and the third."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.conf import lease_seconds
from jobs.engine.claim import Claim, claim
from jobs.engine.fair_share import FairShare
from jobs.engine.outcomes import DeadLettered, Retry
from jobs.engine.rescue import rescue
from jobs.engine.transition import is_quarantined, last_death_reason
from jobs.execution.executor import died
from jobs.queue import cancel, retry
from jobs.states import MAX_DEATHS, QUARANTINE_DEATHS, AttemptEnd, DeadReason, Status
from tests.queue_kit import (
    attempts,
    change,
    dead_letters,
    finish,
    later,
    new_worker,
    row,
    take_one,
    take_started,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("settled_database"),
    pytest.mark.req("J-15"),
]


def lose_worker(job_id: UUID) -> None:
    """Let the job's worker die while it runs the job."""
    take_started(new_worker())
    with later(lease_seconds() + 1):
        rescue(Random(1))
    due_now(job_id)


def due_now(job_id: UUID) -> None:
    change(job_id, scheduled_at=row(job_id).created_at)


def die(held: Claim) -> Any:
    """Let the isolated process that runs the job die."""
    return finish(held, died(held, "killed by SIGSEGV", rng=Random(1)))


@given(st.integers(0, 5), st.integers(1, 5), st.integers(1, 5))
def test_poison_comes_before_any_other_reason(deaths: int, attempts: int, most: int) -> None:
    reason = last_death_reason(deaths=deaths, attempts=attempts, max_attempts=most)
    if deaths + 1 >= MAX_DEATHS:
        assert reason is DeadReason.POISON
    else:
        assert reason is (DeadReason.STALE if attempts >= most else None)


def test_a_job_is_quarantined_from_its_second_death() -> None:
    assert [is_quarantined(deaths) for deaths in (0, 1, 2)] == [False, False, True]


def test_after_the_first_death_it_is_claimed_as_any_other(add):
    job_id = add()
    lose_worker(job_id)
    (held,) = claim(new_worker(), 1, FairShare(), quarantined=False, starts=True)
    assert (held.job_id, held.deaths, held.started) == (job_id, 1, True)


def test_after_the_second_it_is_left_to_whoever_has_a_process_for_it(add):
    job_id = add(max_attempts=5)
    for _ in range(2):
        lose_worker(job_id)
    assert claim(new_worker(), 1, FairShare(), quarantined=False, starts=True) == []
    (held,) = claim(new_worker(), 1, FairShare(), starts=True)
    assert (held.job_id, held.deaths, held.started) == (job_id, 2, False)


@pytest.mark.req("J-14")
def test_the_third_worker_a_job_loses_is_the_last_whatever_attempts_are_left(add):
    job_id = add(max_attempts=20)
    for deaths in (1, 2):
        lose_worker(job_id)
        assert (row(job_id).status, row(job_id).deaths) == (Status.PENDING, deaths)
    lose_worker(job_id)
    assert (row(job_id).status, row(job_id).deaths) == (Status.DLQ, 3)
    (letter,) = dead_letters()
    assert letter.reason == DeadReason.POISON


@pytest.mark.req("J-14")
def test_every_worker_it_loses_costs_a_job_an_attempt(add):
    job_id = add(max_attempts=3)
    lose_worker(job_id)
    lose_worker(job_id)
    assert (row(job_id).status, row(job_id).attempts, row(job_id).deaths) == ("pending", 2, 2)
    assert [one.error_class for one in attempts()] == ["WorkerDied"] * 2
    assert [one.end for one in attempts()] == [AttemptEnd.RESCUED] * 2


@pytest.mark.req("J-13")
def test_a_death_in_its_own_process_is_settled_as_a_death(add):
    job_id = add(max_attempts=5)
    for _ in range(2):
        lose_worker(job_id)
    held = take_one()
    assert is_quarantined(held.deaths)

    assert die(held).statuses == {job_id: Status.DLQ}

    stored = row(job_id)
    assert (stored.attempts, stored.deaths) == (3, 3)
    assert stored.last_error == "its process died: killed by SIGSEGV"
    assert attempts()[-1].end == AttemptEnd.RESCUED
    (letter,) = dead_letters()
    assert letter.reason == DeadReason.POISON


def test_a_death_with_the_last_attempt_is_stale(add):
    job_id = add(max_attempts=2)
    for _ in range(2):
        lose_worker(job_id)
    (letter,) = dead_letters()
    assert (letter.reason, row(job_id).deaths) == (DeadReason.STALE, 2)


@pytest.mark.req("J-09")
def test_a_death_reported_too_late_counts_nothing(add):
    job_id = add()
    lose_worker(job_id)
    held = take_started(new_worker())
    with later(lease_seconds() + 1):
        rescue(Random(1))
    before = row(job_id)
    assert die(held).stale == [held]
    assert (row(job_id).deaths, row(job_id).attempts) == (before.deaths, before.attempts)


@pytest.mark.req("J-16")
def test_a_canceled_job_that_dies_ends_canceled_and_its_death_is_kept(add):
    job_id = add(max_attempts=5)
    change(job_id, deaths=1)
    held = take_one()
    change(job_id, cancel_requested_at=row(job_id).created_at)
    assert die(held).statuses == {job_id: Status.CANCELED}
    assert (row(job_id).deaths, attempts()[-1].end) == (2, AttemptEnd.RESCUED)


@pytest.mark.req("J-17")
@pytest.mark.parametrize(
    ("deaths", "kept"), [(0, 0), (1, 1), (2, QUARANTINE_DEATHS), (MAX_DEATHS, QUARANTINE_DEATHS)]
)
def test_a_retry_by_hand_keeps_a_jobs_deaths_up_to_those_of_quarantine(add, deaths, kept):
    job_id = add(max_attempts=20)
    for _ in range(deaths):
        lose_worker(job_id)
    if row(job_id).status == Status.PENDING:
        cancel(job_id)
    retry(job_id)
    assert (row(job_id).status, row(job_id).deaths) == (Status.PENDING, kept)


def test_a_type_without_dead_letters_fails_of_its_third_death(add):
    job_id = add("test.shrug", max_attempts=5)
    for _ in range(3):
        lose_worker(job_id)
    assert (row(job_id).status, dead_letters()) == (Status.FAILED, [])


def test_every_way_to_die_has_its_own_fingerprint(add):
    add(max_attempts=9)
    held = take_one()
    outcomes = [died(held, how, rng=Random(1)) for how in ("exit code 1", "killed by SIGSEGV")]
    assert all(isinstance(one, Retry | DeadLettered) for one in outcomes)
    assert len({one.failure.fingerprint for one in outcomes}) == 2
