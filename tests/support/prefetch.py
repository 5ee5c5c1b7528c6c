"""A worker with claims it has not started: one slow job holds up a line of quick ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.states import IN_FLIGHT
from tests.support.scenario import Gate, Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, WorkerProcess

# So many quick jobs teach a worker to claim ahead.
LESSONS = 20
# Enough for a line behind the one that is running.
QUICK_JOBS = 150


@dataclass(frozen=True)
class Prefetch:
    """The worker, the job that its only thread runs, and those behind it."""

    worker: WorkerProcess
    blocking: UUID
    behind: list[UUID]
    gate: Gate

    @property
    def jobs(self) -> list[UUID]:
        """All jobs that the gate holds up."""
        return [self.blocking, *self.behind]


def claim_ahead(queue: Scenario, fleet: Fleet, *arguments: str, **options: Any) -> Prefetch:
    """Start a worker and return when it has claimed jobs behind one that waits at a gate."""
    queue.add(LESSONS)
    worker = fleet.start("--concurrency", "1", *arguments, **options)
    queue.wait_until_settled()
    gate = queue.gate()
    (blocking,) = queue.add(gate=gate, priority=0)
    # Started alone: behind it in one chunk, others would count as started too.
    queue.wait_until_started(blocking)
    behind = queue.add(QUICK_JOBS, priority=0)
    wait_until(lambda: queue.statuses(behind).keys() & IN_FLIGHT, "jobs claimed ahead")
    return Prefetch(worker, blocking, behind, gate)
