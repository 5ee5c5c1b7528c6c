"""An attempt that ended, as it is handed over to be written, and what became of a batch of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Outcome
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.states import Status


class Settlement(NamedTuple):
    """One attempt and how it ended; `ran_seconds` None when the handler never started.

    `ended_at` is when that was, by the monotonic clock; None: just now.
    """

    claim: Claim
    outcome: Outcome
    ran_seconds: float | None
    ended_at: float | None = None

    def begun_ago(self, now: float) -> float | None:
        """Return how many seconds before `now`, of the monotonic clock, the handler began."""
        if self.ran_seconds is None or self.ended_at is None:
            return self.ran_seconds
        return self.ran_seconds + now - self.ended_at


@dataclass
class SettleReport:
    """What became of a batch: the status of each settled job, the claims that came too late.

    `before` holds, by token, the status of jobs that an earlier write of the same claim settled.
    """

    statuses: dict[UUID, Status] = field(default_factory=dict)
    before: dict[int, Status] = field(default_factory=dict)
    stale: list[Claim] = field(default_factory=list)
    released_capacity: ReleasedCapacity = field(default_factory=ReleasedCapacity)

    def add(self, other: SettleReport) -> None:
        """Take in the report of another part of the batch."""
        self.statuses |= other.statuses
        self.before |= other.before
        self.stale += other.stale
        self.released_capacity |= other.released_capacity
