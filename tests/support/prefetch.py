"""A worker with claims that it has not started: they wait in its buffer behind one slow job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobs.states import IN_FLIGHT
from tests.support.scenario import Gate, Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, WorkerProcess

# After this many quick jobs a worker claims ahead.
WARM_UP_JOBS = 20
# Enough jobs to fill the buffer behind the running one.
QUICK_JOBS = 150
# Longer than any test takes.
KEEP_SECONDS = 600


@dataclass(frozen=True)
class Prefetch:
    """The worker, the job that its only thread runs, and the jobs behind that one."""

    worker: WorkerProcess
    blocking: UUID
    behind: list[UUID]
    gate: Gate

    @property
    def jobs(self) -> list[UUID]:
        """All jobs that wait for the gate."""
        return [self.blocking, *self.behind]


def claim_ahead(
    queue: Scenario, fleet: Fleet, *arguments: str, keeps: bool = True, **options: Any
) -> Prefetch:
    """Start a worker; return when it has claimed jobs behind one that waits at a gate.

    With `keeps` False, the jobs are given back half a second later, and others are claimed after a
    pause.
    """
    queue.add(WARM_UP_JOBS)
    if keeps:
        options["KEEP_CLAIMS_SECONDS"] = str(KEEP_SECONDS)
    worker = fleet.start("--concurrency", "1", *arguments, **options)
    queue.wait_until_settled()
    gate = queue.gate()
    (blocking,) = queue.add(gate=gate, priority=0)
    # This job starts alone, because other jobs in its batch would count as started, too.
    queue.wait_until_started(blocking)
    behind = queue.add(QUICK_JOBS, priority=0)
    wait_until(lambda: queue.statuses(behind).keys() & IN_FLIGHT, "jobs claimed ahead")
    return Prefetch(worker, blocking, behind, gate)
