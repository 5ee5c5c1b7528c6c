"""How long a job waits before each retry."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import LONGEST_WAIT_SECONDS
from jobs.retry import Backoff, RetryPolicy

pytestmark = pytest.mark.req("J-10")


def delays(policy: RetryPolicy, attempts: int = 8) -> list[float]:
    return [policy.delay_seconds(attempt, Random(1)) for attempt in range(1, attempts + 1)]


def test_the_default_policy_is_three_attempts_a_minute_apart_and_at_most_an_hour():
    policy = RetryPolicy()
    assert policy.max_attempts == 3
    assert policy.backoff == "exponential"
    assert (policy.base_delay_seconds, policy.max_delay_seconds) == (60, 3600)
    assert policy.jitter == 0.1


def test_exponential_without_jitter_is_exact_up_to_the_cap():
    policy = RetryPolicy(max_attempts=10, jitter=0)
    assert delays(policy) == [60, 120, 240, 480, 960, 1920, 3600, 3600]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [("exponential", [5, 10, 20, 40]), ("linear", [5, 10, 15, 20]), ("fixed", [5, 5, 5, 5])],
)
def test_each_backoff_grows_in_its_own_way(backoff: Backoff, expected: list[float]):
    policy = RetryPolicy(backoff=backoff, base_delay_seconds=5, jitter=0)
    assert delays(policy, 4) == expected


def test_jitter_stays_within_a_tenth_and_does_vary():
    policy = RetryPolicy()
    rng = Random(7)
    drawn = [policy.delay_seconds(2, rng) for _ in range(500)]
    assert all(108 <= delay <= 132 for delay in drawn)
    assert max(drawn) - min(drawn) > 20


def test_the_cap_holds_after_the_jitter():
    policy = RetryPolicy(max_attempts=9, base_delay_seconds=3600, max_delay_seconds=3600)
    rng = Random(3)
    drawn = [policy.delay_seconds(1, rng) for _ in range(200)]
    assert max(drawn) == 3600
    assert min(drawn) < 3600


def test_a_huge_attempt_number_still_gives_the_cap():
    assert RetryPolicy(jitter=0).delay_seconds(32_767, Random(1)) == 3600


def test_attempts_count_from_one():
    with pytest.raises(ValueError, match="from 1"):
        RetryPolicy().delay_seconds(0, Random(1))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", 32_768),
        ("backoff", "quadratic"),
        ("base_delay_seconds", -1),
        ("base_delay_seconds", float("nan")),
        ("base_delay_seconds", float("inf")),
        ("max_delay_seconds", 59),
        ("max_delay_seconds", float("inf")),
        ("max_delay_seconds", LONGEST_WAIT_SECONDS + 1),
        ("jitter", -0.1),
        ("jitter", 1),
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused_by_name(attribute: str, value: Any):
    with pytest.raises(ValueError, match=attribute):
        RetryPolicy(**{attribute: value})


@pytest.mark.parametrize(
    ("attribute", "value", "what"),
    [
        ("max_attempts", "3", "a whole number"),
        ("max_attempts", 2.5, "a whole number"),
        ("max_attempts", True, "a whole number"),
        ("base_delay_seconds", None, "a number"),
        ("max_delay_seconds", "60", "a number"),
        ("jitter", False, "a number"),
    ],
)
def test_what_is_no_number_is_refused_by_name(attribute: str, value: Any, what: str):
    with pytest.raises(TypeError, match=f"^{attribute} must be {what}$"):
        RetryPolicy(**{attribute: value})


policies = st.builds(
    lambda base, extra, **rest: RetryPolicy(
        base_delay_seconds=base, max_delay_seconds=base + extra, **rest
    ),
    base=st.floats(0, 1e5),
    extra=st.floats(0, 1e6),
    backoff=st.sampled_from(["exponential", "linear", "fixed"]),
    jitter=st.floats(0, 0.99),
)


@given(policies, st.integers(1, 32_767), st.integers())
def test_every_delay_is_finite_and_between_zero_and_the_cap(
    policy: RetryPolicy, attempt: int, seed: int
):
    assert 0 <= policy.delay_seconds(attempt, Random(seed)) <= policy.max_delay_seconds


@given(policies, st.integers(1, 100))
def test_without_jitter_waiting_never_gets_shorter(policy: RetryPolicy, attempt: int):
    exact = RetryPolicy(**{**vars(policy), "jitter": 0})
    assert exact.delay_seconds(attempt, Random(1)) <= exact.delay_seconds(attempt + 1, Random(1))
