"""Helpers that most tests of circuit breakers need."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.engine.admission import sweep
from jobs.engine.breakers import drop_idle_breakers, send_probes
from jobs.engine.claim import Claim
from jobs.engine.demotion import demote
from jobs.engine.outcomes import Completed, Failure, Outcome, Retry
from jobs.models import CircuitBreaker
from tests.queue_kit import finish, rows, take

DOWN = Failure("ConnectionError", "no answer", "Traceback …", "00000000000000aa")
FAILS: Outcome = Retry(0.0, DOWN)
WORKS: Outcome = Completed({})


def fails_with(fingerprint: str) -> Outcome:
    """Return a failure with this fingerprint."""
    return Retry(0.0, Failure("ValueError", "it broke", "", fingerprint))


def chores() -> None:
    """Run the maintenance tasks that concern breakers."""
    demote()
    send_probes()
    drop_idle_breakers()
    sweep()


def breaker() -> CircuitBreaker:
    """Return the only breaker."""
    (only,) = rows(CircuitBreaker)
    return only


def attempt(outcomes: Sequence[Outcome]) -> list[Claim]:
    """Claim a job for each outcome, all at once, and end them one after the other."""
    held = take(len(outcomes))
    assert len(held) == len(outcomes)
    for claim, outcome in zip(held, outcomes, strict=True):
        finish(claim, outcome)
    return held


def trip() -> list[Claim]:
    """Open the breaker with four failures."""
    return attempt([FAILS] * 4)
