"""How one attempt ended: a closed set of values, decided by the executor, written by settle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.states import DeadReason


@dataclass(frozen=True)
class Failure:
    """What is kept about an attempt that went wrong; already redacted and cut to size."""

    error_class: str
    message: str
    traceback: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Completed:
    """The handler returned."""

    result: Any


@dataclass(frozen=True)
class Retry:
    """The attempt failed; wait `delay_seconds` and try again. `died`: with its process."""

    delay_seconds: float
    failure: Failure
    died: bool = False


@dataclass(frozen=True)
class Snoozed:
    """Run again at `until`, or in `delay_seconds`; the attempt is given back."""

    until: datetime | None = None
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class Canceled:
    """The handler, or somebody's request, stopped the job."""

    message: str


@dataclass(frozen=True)
class DeadLettered:
    """No further attempt; an operator decides. `to_review` False ends the job `failed` instead.

    `died`: the attempt ended with its process.
    """

    reason: DeadReason
    failure: Failure
    to_review: bool = True
    died: bool = False


@dataclass(frozen=True)
class Released:
    """Not run, or not by this worker: back to pending, the attempt given back."""

    reason: str
    delay_seconds: float = 0.0


Outcome = Completed | Retry | Snoozed | Canceled | DeadLettered | Released
