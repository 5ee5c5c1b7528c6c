"""How attempts end: a closed set of outcomes, decided by the executor, written by settle."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from jobs.engine.claim import Claim
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.states import DeadReason, Status


@dataclass(frozen=True)
class Failure:
    """What is stored of an error: redacted and cut to size."""

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
    """The attempt failed; try again in `delay_seconds`. `died`: its process ended with it."""

    delay_seconds: float
    failure: Failure
    died: bool = False


@dataclass(frozen=True)
class Snoozed:
    """Run again at `until`, or in `delay_seconds`; the attempt is not counted."""

    until: datetime | None = None
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class Canceled:
    """The handler, or a cancel request, stopped the job."""

    message: str


@dataclass(frozen=True)
class DeadLettered:
    """No further attempt; an operator decides. `to_review` False ends the job `failed` instead.

    `died`: the process of the attempt ended with it.
    """

    reason: DeadReason
    failure: Failure
    to_review: bool = True
    died: bool = False


@dataclass(frozen=True)
class Released:
    """Not run, or not by this worker: back to pending; the attempt is not counted."""

    reason: str
    delay_seconds: float = 0.0


Outcome = Completed | Retry | Snoozed | Canceled | DeadLettered | Released


class Settlement(NamedTuple):
    """The outcome of one claim; `ran_seconds` None when the handler never started.

    `ended_at` is when the handler ended, by the monotonic clock; None means now.
    """

    claim: Claim
    outcome: Outcome
    ran_seconds: float | None
    ended_at: float | None = None

    def begun_ago(self, now: float) -> float | None:
        """Return how many seconds before `now`, by the monotonic clock, the handler began."""
        if self.ran_seconds is None or self.ended_at is None:
            return self.ran_seconds
        return self.ran_seconds + now - self.ended_at


@dataclass
class SettleReport:
    """The new status of each settled job, and the claims that were no longer in force.

    `before` has the status, by token, of jobs that an earlier write of the same claim settled.
    """

    statuses: dict[UUID, Status] = field(default_factory=dict)
    before: dict[int, Status] = field(default_factory=dict)
    stale: list[Claim] = field(default_factory=list)
    released_capacity: ReleasedCapacity = field(default_factory=ReleasedCapacity)

    def add(self, other: SettleReport) -> None:
        """Add the report of another part of the batch."""
        self.statuses |= other.statuses
        self.before |= other.before
        self.stale += other.stale
        self.released_capacity |= other.released_capacity
