"""Retry policies: how often a job is tried, and after what delays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Literal

from jobs.errors import LONGEST_WAIT_SECONDS

Backoff = Literal["exponential", "linear", "fixed"]


def check_numbers(policy: object, whole: Collection[str] = (), real: Collection[str] = ()) -> None:
    """Check the types of these attributes, because not every project runs a type checker.

    A bool is refused too, although it is an int.

    Raises:
        TypeError: naming the attribute that is no number.
    """
    for name in (*whole, *real):
        kind, what = (int, "a whole number") if name in whole else (int | float, "a number")
        number = getattr(policy, name)
        if not isinstance(number, kind) or isinstance(number, bool):
            raise TypeError(f"{name} must be {what}")


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a job type is tried, and how long it waits in between.

    With base b, delays after attempts 1, 2, 3 … are: exponential b, 2b, 4b …; linear b, 2b, 3b …;
    fixed b, b, b … Each is multiplied by a factor drawn from [1 - jitter, 1 + jitter] and then
    capped at `max_delay_seconds`.
    """

    max_attempts: int = 3
    backoff: Backoff = "exponential"
    base_delay_seconds: float = 60.0
    max_delay_seconds: float = 3600.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        """Refuse an invalid policy.

        Raises:
            TypeError: naming the attribute that is no number.
            ValueError: naming the attribute that is out of range.
        """
        check_numbers(
            self,
            whole=["max_attempts"],
            real=["base_delay_seconds", "max_delay_seconds", "jitter"],
        )
        if not 1 <= self.max_attempts <= 32_767:
            raise ValueError("max_attempts must be from 1 to 32767")
        if self.backoff not in ("exponential", "linear", "fixed"):
            raise ValueError("backoff must be exponential, linear or fixed")
        if not 0 <= self.base_delay_seconds < float("inf"):
            raise ValueError("base_delay_seconds must be zero or more")
        if not self.base_delay_seconds <= self.max_delay_seconds <= LONGEST_WAIT_SECONDS:
            message = f"from base_delay_seconds to {LONGEST_WAIT_SECONDS:,}"
            raise ValueError(f"max_delay_seconds must be {message}")
        if not 0 <= self.jitter < 1:
            raise ValueError("jitter must be at least 0 and below 1")

    def delay_seconds(self, attempt: int, rng: Random) -> float:
        """Return the wait after failed attempt number `attempt` (from 1), in seconds.

        Raises:
            ValueError: `attempt` is below 1.
        """
        if attempt < 1:
            raise ValueError("attempt counts from 1")
        delay = self.base_delay_seconds * self._factor(attempt)
        if self.jitter:
            delay *= rng.uniform(1 - self.jitter, 1 + self.jitter)
        return min(delay, self.max_delay_seconds)

    def _factor(self, attempt: int) -> float:
        if self.backoff == "exponential":
            # 2^40 exceeds every sensible longest delay; the bound keeps the float finite.
            return 2.0 ** min(attempt - 1, 40)
        return float(attempt) if self.backoff == "linear" else 1.0
