"""The queue of one test: what was enqueued, what became of it, and whether invariants hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db.models import Count
from django.db.models.functions import Now

from jobs.engine.clock import database_now
from jobs.models import Attempt, JobQueue, Worker
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.states import LIVE, AttemptEnd, Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.support import invariants
from tests.support.journal import Journal
from tests.support.testjobs import job_handlers
from tests.support.waiting import wait_until

__all__ = ["Gate", "Scenario", "job_handlers"]


class Gate:
    """A file that a job waits for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> None:
        """Let the waiting jobs go on."""
        self.path.touch()


class Scenario:
    """Enqueues jobs, and reads and checks what becomes of them."""

    def __init__(self, firm: Firm, folder: Path) -> None:
        self.firm = firm
        self.journal = Journal(folder / "journal")
        self.accepted: list[UUID] = []
        self._folder = folder

    def gate(self) -> Gate:
        """Return a closed gate."""
        return Gate(self._folder / "gate")

    def add(
        self,
        count: int = 1,
        *,
        job_type: str = "process.work",
        gate: Gate | None = None,
        seconds: float = 0.0,
        label: str = "",
        **options: Any,
    ) -> list[UUID]:
        """Enqueue jobs that record their start and end; options as in `EnqueueSpec`."""
        payload = {
            "journal": str(self.journal.path),
            "label": label,
            "gate": str(gate.path) if gate else "",
            "seconds": seconds,
        }
        return self.enqueue([EnqueueSpec(job_type, payload, **options)] * count)

    def add_failing(self, how: str, times: int, **options: Any) -> UUID:
        """Enqueue a job whose first `times` attempts fail."""
        payload = {"journal": str(self.journal.path), "how": how, "times": times}
        return self.enqueue([EnqueueSpec("process.fail", payload, **options)])[0]

    def add_deadly(self, how: str, times: int = 99, **options: Any) -> UUID:
        """Enqueue a job whose first `times` attempts kill the process they run in."""
        payload = {"journal": str(self.journal.path), "how": how, "times": times}
        return self.enqueue([EnqueueSpec("process.die", payload, **options)])[0]

    def row(self, job_id: UUID) -> JobQueue:
        """Return the job as it is stored."""
        with all_firms("looking at a job"):
            row: JobQueue = JobQueue.objects.get(pk=job_id)
            return row

    def attempts(self, job_id: UUID) -> list[Attempt]:
        """Return the attempts that did not complete the job."""
        with all_firms("looking at a job"):
            return list(Attempt.objects.filter(job_id=job_id))

    def only_attempt(self, job_id: UUID) -> Attempt:
        """Return the attempt that was not given back; there must be exactly one."""
        (attempt,) = [one for one in self.attempts(job_id) if one.end != AttemptEnd.RELEASED]
        return attempt

    def statuses(self, job_ids: Collection[UUID] = ()) -> Counter[Status]:
        """Return how many jobs have each status, of these or of all."""
        with all_firms("looking at the queue"):
            jobs = JobQueue.objects.filter(pk__in=job_ids) if job_ids else JobQueue.objects.all()
            counted = jobs.values_list("status").annotate(Count("job_id"))
            return Counter({Status(status): number for status, number in counted})

    def wait_until_started(self, job_id: UUID, *, starts: int = 1) -> None:
        """Wait until the job's handler has started `starts` times."""
        wait_until(
            lambda: len(self.journal.starts(job_id=job_id)) >= starts, f"start {starts} of {job_id}"
        )

    def wait_until_settled(self, job_ids: Collection[UUID] = (), *, timeout: float = 90.0) -> None:
        """Wait until these jobs, or all, are in a terminal status."""
        wait_until(
            lambda: not LIVE & self.statuses(job_ids).keys(), "all jobs settled", timeout=timeout
        )

    def wait_until_leases_are_over(self) -> None:
        """Wait until the lease of every worker is over."""
        alive = Worker.objects.filter(lease_expires_at__gte=Now())
        wait_until(lambda: not alive.exists(), "every lease to run out")

    def wait_until_leases_are_renewed(self, seen: Mapping[UUID, datetime]) -> None:
        """Wait until each of these workers has a lease beyond the given end of it."""
        alive = Worker.objects.filter(pk__in=seen, lease_expires_at__gte=Now())
        wait_until(
            lambda: database_now() > max(seen.values()) and alive.count() == len(seen),
            "every lease to be renewed",
        )

    def check(self, *, expected_dead: Collection[UUID] = ()) -> None:
        """Check every invariant; all workers must have stopped."""
        invariants.check(self.accepted, self.journal, expected_dead=expected_dead)

    def enqueue(self, specs: list[EnqueueSpec]) -> list[UUID]:
        """Enqueue jobs with these specs; return their ids."""
        ids = [result.job_id for result in enqueue_many(specs, firm=self.firm)]
        self.accepted += ids
        return ids
