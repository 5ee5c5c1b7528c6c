"""The circuit breaker's rule: when a type's jobs are held back, and when they are tried again.

    closed --one failure makes up `failure_rate` of the window's attempts--> open
    open --the cooldown is over and a job waits--> half open, that job is the probe
    half open --the probe completes--> closed
    half open --the probe fails--> open, with twice the cooldown

This module is pure: the database keeps the times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from jobs.errors import LONGEST_WAIT_SECONDS
from jobs.retry import check_numbers
from jobs.states import BreakerState

MAX_COOLDOWN_SECONDS = 900.0
# At most this many different failures are counted in a window; a new one replaces the rarest.
MAX_FINGERPRINTS = 20


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """When a type's jobs are no longer tried, and for how long at first.

    Attempts are counted for each firm separately, because one firm's expired credentials must not
    hold back another's jobs. Only failures with the same fingerprint open the breaker, because jobs
    that fail for different reasons have no common cause.
    """

    failure_rate: float = 0.5
    min_attempts: int = 20
    window_seconds: float = 60.0
    cooldown_seconds: float = 30.0

    def __post_init__(self) -> None:
        """Refuse a breaker that could never open, or never close.

        Raises:
            TypeError: naming the attribute that is no number.
            ValueError: naming the attribute that is out of range.
        """
        check_numbers(
            self,
            whole=["min_attempts"],
            real=["failure_rate", "window_seconds", "cooldown_seconds"],
        )
        if not 0 < self.failure_rate <= 1:
            raise ValueError("failure_rate must be above 0 and at most 1")
        if self.min_attempts < 1:
            raise ValueError("min_attempts must be at least 1")
        if not 0 < self.window_seconds <= LONGEST_WAIT_SECONDS:
            raise ValueError(f"window_seconds must be above 0 and at most {LONGEST_WAIT_SECONDS:,}")
        if not 0 < self.cooldown_seconds <= MAX_COOLDOWN_SECONDS:
            raise ValueError(
                f"cooldown_seconds must be above 0 and at most {MAX_COOLDOWN_SECONDS:g}"
            )

    def cooldown(self, trips: int) -> float:
        """Return the cooldown after the breaker opened `trips` times (from 1) in a row."""
        # 2^20 exceeds every longest cooldown; the bound on the exponent keeps the float finite.
        return min(self.cooldown_seconds * 2.0 ** min(trips - 1, 20), MAX_COOLDOWN_SECONDS)


@dataclass(frozen=True)
class Circuit:
    """The state of one firm's attempts at one type: the breaker's row without its times."""

    state: BreakerState = BreakerState.CLOSED
    attempts: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    trips: int = 0
    fingerprint: str = ""
    probe: UUID | None = None

    def after_attempt(self, job_id: UUID, fingerprint: str | None, rule: Breaker) -> Circuit:
        """Return the circuit after an attempt of this job; `fingerprint` is None if it completed.

        In an open circuit, and in a half-open one for any job but the probe, nothing changes: those
        attempts started before it opened.
        """
        match self.state:
            case BreakerState.OPEN:
                return self
            case BreakerState.HALF_OPEN:
                if job_id != self.probe:
                    return self
                return Circuit() if fingerprint is None else self.opened(fingerprint)
            case BreakerState.CLOSED:
                counted = self._counted(fingerprint)
                frequent = counted.frequent_failure(rule)
                return counted if frequent is None else counted.opened(frequent)

    def opened(self, fingerprint: str) -> Circuit:
        """Return the circuit after it opened."""
        return Circuit(
            state=BreakerState.OPEN,
            trips=self.trips + 1,
            fingerprint=fingerprint or self.fingerprint,
        )

    def _counted(self, fingerprint: str | None) -> Circuit:
        failures = dict(self.failures)
        if fingerprint is not None:
            failures[fingerprint] = failures.get(fingerprint, 0) + 1
            if len(failures) > MAX_FINGERPRINTS:
                del failures[
                    min(failures, key=lambda known: (known == fingerprint, failures[known]))
                ]
        return replace(self, attempts=self.attempts + 1, failures=failures)

    def frequent_failure(self, rule: Breaker) -> str | None:
        """Return the fingerprint of the failure that opens the circuit, or None."""
        if self.attempts < rule.min_attempts or not self.failures:
            return None
        most = max(self.failures, key=lambda known: (self.failures[known], known))
        return most if self.failures[most] >= rule.failure_rate * self.attempts else None
