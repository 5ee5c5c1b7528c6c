"""The rule of the circuit breaker, without a database."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.breaker import MAX_COOLDOWN_SECONDS, MAX_FINGERPRINTS, Breaker, Circuit
from jobs.states import BreakerState

pytestmark = pytest.mark.req("O-07")

SOME = UUID(int=1)

rules = st.builds(
    Breaker,
    failure_rate=st.floats(0.01, 1),
    min_attempts=st.integers(1, 30),
    cooldown_seconds=st.floats(0.1, 900),
)
ends = st.lists(st.sampled_from([None, "a", "a", "b", "c"]), max_size=80)


def after_all(circuit: Circuit, fingerprints: list[str | None], rule: Breaker) -> Circuit:
    for fingerprint in fingerprints:
        circuit = circuit.after_attempt(SOME, fingerprint, rule)
    return circuit


@pytest.mark.parametrize(
    "options",
    [
        {"failure_rate": 0},
        {"failure_rate": 1.01},
        {"failure_rate": float("nan")},
        {"min_attempts": 0},
        {"window_seconds": 0},
        {"window_seconds": float("inf")},
        {"window_seconds": 1e12},
        {"cooldown_seconds": 0},
        {"cooldown_seconds": 901},
    ],
)
def test_a_breaker_that_could_never_open_or_close_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Breaker(**options)


@pytest.mark.parametrize(
    "name", ["failure_rate", "min_attempts", "window_seconds", "cooldown_seconds"]
)
@pytest.mark.parametrize("wrong", [None, "1", True])
def test_what_is_no_number_is_refused_by_name(name, wrong):
    with pytest.raises(TypeError, match=f"^{name} must be a (whole )?number$"):
        Breaker(**{name: wrong})


@given(rules, ends)
def test_it_opens_at_the_first_moment_one_failure_reaches_the_rate_and_not_before(rule, ended):
    for count in range(1, len(ended) + 1):
        so_far = ended[:count]
        worst = max(so_far.count(one) for one in ("a", "b", "c"))
        reached = count >= rule.min_attempts and worst >= max(rule.failure_rate * count, 1)
        circuit = after_all(Circuit(), so_far, rule)
        assert (circuit.state is BreakerState.OPEN) == reached
        if reached:
            assert so_far.count(circuit.fingerprint) == worst
            break


@given(rules, ends)
def test_what_ends_while_it_is_open_changes_nothing(rule, ended):
    circuit = Circuit().opened("a")
    assert after_all(circuit, ended, rule) == circuit


@given(rules, ends, st.sampled_from([None, "a", "b"]))
def test_half_open_only_the_probe_decides(rule, ended, verdict):
    probe = uuid4()
    circuit = Circuit(state=BreakerState.HALF_OPEN, trips=3, fingerprint="a", probe=probe)
    assert after_all(circuit, ended, rule) == circuit
    decided = circuit.after_attempt(probe, verdict, rule)
    if verdict is None:
        assert decided == Circuit()
    else:
        assert (decided.state, decided.trips, decided.probe) == (BreakerState.OPEN, 4, None)


@given(rules, st.integers(1, 2_000))
def test_each_opening_in_a_row_lasts_twice_as_long_up_to_a_quarter_of_an_hour(rule, trips):
    assert rule.cooldown(1) == rule.cooldown_seconds
    assert rule.cooldown(trips + 1) == min(rule.cooldown(trips) * 2, MAX_COOLDOWN_SECONDS)


def test_ever_new_failures_do_not_fill_the_row():
    rule = Breaker(min_attempts=1_000)
    frequent = ["often"] * 3
    circuit = after_all(Circuit(), frequent + [f"{number}" for number in range(200)], rule)
    assert len(circuit.failures) <= MAX_FINGERPRINTS
    assert circuit.failures["often"] == 3
    assert circuit.attempts == 203
