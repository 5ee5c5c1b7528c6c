"""How many jobs are claimed ahead, and the buffer in which claims wait for a thread."""

from __future__ import annotations

import time

import pytest

from jobs.engine.claim import Claim
from jobs.queue import enqueue
from jobs.worker.prefetch import (
    LARGEST_PREFETCH,
    LONGEST_WAIT_SECONDS,
    PAUSE_SECONDS,
    PrefetchBuffer,
    PrefetchPolicy,
)
from tenants.models import Firm
from tests.queue_kit import take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("W-02")]


@pytest.fixture
def claims(firm: Firm) -> list[Claim]:
    """Return six claims in the order of their jobs."""
    for _ in range(6):
        enqueue("noop", firm=firm)
    return take(6)


@pytest.fixture
def policy() -> PrefetchPolicy:
    """Return a policy that has seen only short jobs."""
    seen = PrefetchPolicy()
    seen.observe("noop", 0.0001)
    return seen


def filled(*claims: Claim) -> PrefetchBuffer:
    buffer = PrefetchBuffer()
    buffer.extend(claims)
    return buffer


def test_short_jobs_make_one_batch_and_what_is_put_back_comes_first(
    claims: list[Claim], policy: PrefetchPolicy
):
    buffer = filled(*claims)
    taken = buffer.take_batch(policy, 1)
    assert taken == claims
    buffer.put_back(taken[2:])
    assert buffer.take_batch(policy, 1) == claims[2:]


def test_jobs_of_a_type_not_seen_yet_come_one_by_one(claims: list[Claim], policy: PrefetchPolicy):
    stranger = claims[2]._replace(job_type="stranger")
    buffer = filled(*claims[:2], stranger, *claims[3:])
    assert [len(buffer.take_batch(policy, 1)) for _ in range(3)] == [2, 1, 3]


def test_a_batch_of_longer_jobs_is_smaller(claims: list[Claim], policy: PrefetchPolicy):
    for _ in range(50):
        policy.observe("noop", 0.012)
    assert [len(filled(*claims).take_batch(policy, 1))] == [2]


def test_longer_jobs_are_shared_among_idle_threads(claims: list[Claim], policy: PrefetchPolicy):
    for _ in range(50):
        policy.observe("noop", 0.004)
    buffer = filled(*claims)
    assert [len(buffer.take_batch(policy, free)) for free in (4, 3, 2, 1)] == [2, 2, 1, 1]


def test_a_job_on_its_last_attempt_comes_alone(claims: list[Claim], policy: PrefetchPolicy):
    last = claims[2]._replace(attempts=3, max_attempts=3)
    buffer = filled(*claims[:2], last, *claims[3:])
    assert [len(buffer.take_batch(policy, 1)) for _ in range(3)] == [2, 1, 3]


def test_a_more_urgent_job_overtakes_what_waits(claims: list[Claim], policy: PrefetchPolicy):
    urgent = [claim._replace(priority=0) for claim in claims[4:]]
    buffer = filled(*claims[:4])
    buffer.extend(urgent)
    assert list(buffer) == [*urgent, *claims[:4]]
    buffer.put_back([claims[5]])
    assert list(buffer) == [*urgent, claims[5], *claims[:4]]


def test_a_quarantined_job_waits_apart(claims: list[Claim], policy: PrefetchPolicy):
    deadly = claims[0]._replace(deaths=2)
    buffer = filled(deadly, *claims[1:])
    assert (buffer.ordinary, buffer.quarantined, len(buffer)) == (5, 1, 6)
    assert buffer.take_batch(policy, 1) == claims[1:]
    assert buffer.take_quarantined() == deadly
    assert buffer.take_quarantined() is None


def test_what_has_waited_for_too_long_goes_back(claims: list[Claim], policy: PrefetchPolicy):
    buffer = filled(*claims[:4], *[claim._replace(deaths=2) for claim in claims[4:]])
    at = claims[0].claimed_at
    soon, late = at + LONGEST_WAIT_SECONDS * 0.9, at + LONGEST_WAIT_SECONDS * 1.1
    assert buffer.take_overdue(policy, soon, threads=1, kept=0) == []
    overdue = buffer.take_overdue(policy, late, threads=1, kept=1)
    assert [claim.job_id for claim in overdue] == [
        claim.job_id for claim in (*claims[:4], claims[5])
    ]
    assert (buffer.ordinary, buffer.quarantined) == (0, 1), "one waits for a starting process"


def test_what_would_wait_for_too_long_behind_slow_jobs_goes_back_at_once(
    claims: list[Claim], policy: PrefetchPolicy
):
    buffer = filled(*claims)
    now = claims[0].claimed_at
    policy.observe_running("noop", now - 0.3, now)
    assert buffer.take_overdue(policy, now, threads=1, kept=0) == claims[2:]
    assert list(buffer) == claims[:2]
    assert buffer.take_overdue(policy, now, threads=3, kept=0) == []


def test_one_slow_job_among_short_ones_sends_none_back(claims: list[Claim], policy: PrefetchPolicy):
    now = claims[0].claimed_at
    # The last short job ended long ago, because the worker may have had nothing to claim since.
    policy.observe("noop", 0.0001, now - 29.9)
    policy.observe_running("noop", now - 30.0, now)
    assert filled(*claims).take_overdue(policy, now, threads=1, kept=0) == []


def test_a_slow_job_that_no_other_outran_sends_them_back(
    claims: list[Claim], policy: PrefetchPolicy
):
    now = claims[0].claimed_at
    policy.observe("noop", 0.0001, now - 30.1)
    policy.observe_running("noop", now - 30.0, now)
    assert filled(*claims).take_overdue(policy, now, threads=1, kept=0) == claims[1:]


def wanted(policy: PrefetchPolicy, *, free: int, buffered: int = 0, threads: int = 10) -> int:
    return policy.wanted(time.monotonic(), threads=threads, free=free, buffered=buffered)


def test_only_short_jobs_are_claimed_ahead():
    policy = PrefetchPolicy()
    policy.observe("noop", 0.00001)
    assert wanted(PrefetchPolicy(), free=4) == 4, "no job has been observed yet"
    assert wanted(policy, free=0) == LARGEST_PREFETCH
    assert wanted(policy, free=10, buffered=LARGEST_PREFETCH * 2 // 3) == 0, "enough are buffered"
    for _ in range(50):
        policy.observe("slow", 0.2)
    assert wanted(policy, free=4) == 4
    assert wanted(policy, free=0) == 0


@pytest.mark.parametrize(
    ("run_seconds", "ahead"),
    [(0.00005, 2000), (0.0001, 1000), (0.001, 1000), (0.02, 50)],
)
def test_as_much_is_claimed_ahead_as_takes_a_tenth_of_a_second(run_seconds: float, ahead: int):
    policy = PrefetchPolicy()
    policy.observe("noop", run_seconds)
    # Jobs of the first two durations run on one thread at a time, the others on all ten.
    assert wanted(policy, free=0) == pytest.approx(ahead, abs=1)


def test_nothing_is_claimed_ahead_after_claims_had_to_go_back():
    policy = PrefetchPolicy()
    policy.observe("noop", 0.00001)
    now = time.monotonic()
    policy.pause(now)
    assert policy.wanted(now, threads=10, free=2, buffered=1) == 1
    later = now + PAUSE_SECONDS
    assert policy.wanted(later, threads=10, free=2, buffered=1) == LARGEST_PREFETCH - 1


def test_large_payloads_are_claimed_ahead_by_their_size(
    claims: list[Claim], policy: PrefetchPolicy
):
    policy.observe_payloads([claim._replace(payload="x" * 250_000) for claim in claims])
    assert 0 < wanted(policy, free=4) < 40
    policy.observe_payloads(claims)
    assert wanted(policy, free=4) < 100, "large payloads may come again"
