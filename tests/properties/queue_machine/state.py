"""The state of the reference model: plain dictionaries, without a database."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from jobs.states import IN_FLIGHT, LIVE, AttemptEnd, DeadReason, Resolution, Status
from tests.properties.queue_machine.kinds import Kind

# All times here are seconds since the model's clock started.
Seconds = int
LockKey = tuple[int, str]


@dataclass
class Job:
    """A job; `slot` is its slot among those of its lock key, or None."""

    job_id: UUID
    firm_id: int
    kind: Kind
    priority: int
    scheduled: Seconds
    expires: Seconds | None
    lock_key: str | None
    key: str | None
    status: Status = Status.PENDING
    attempts: int = 0
    deaths: int = 0
    series: int = 1
    token: int = 0
    slot: int | None = None
    worker: UUID | None = None
    cancel_requested: bool = False
    completed: Seconds | None = None
    touched: Seconds = 0

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def in_flight(self) -> bool:
        return self.status in IN_FLIGHT

    @property
    def ready(self) -> bool:
        return self.live and (self.lock_key is None or self.slot is not None)

    @property
    def place_in_line(self) -> tuple[Seconds, UUID]:
        return (self.scheduled, self.job_id)


@dataclass
class Letter:
    """A dead letter."""

    firm_id: int
    reason: DeadReason
    resolution: Resolution | None = None
    reviewed: Seconds | None = None

    @property
    def open(self) -> bool:
        return self.resolution in (None, Resolution.ESCALATED)


@dataclass
class Worker:
    """A worker's row; `running` has the jobs whose handlers the worker noted as started."""

    lease_until: Seconds
    running: frozenset[UUID] = frozenset()
    dead: bool = False


@dataclass(frozen=True)
class Ended:
    """An attempt that is in the history."""

    job_id: UUID
    series: int
    number: int
    end: AttemptEnd
    at: Seconds
    unknown_type: bool = False


@dataclass
class State:
    """The state of the whole queue."""

    now: Seconds = 0
    jobs: dict[UUID, Job] = field(default_factory=dict)
    letters: dict[tuple[UUID, int], Letter] = field(default_factory=dict)
    history: list[Ended] = field(default_factory=list)
    workers: dict[UUID, Worker] = field(default_factory=dict)
    once_keys: dict[tuple[int, str], UUID] = field(default_factory=dict)
    # By firm, category, minute and what is counted.
    counters: Counter[tuple[int, str, int, str]] = field(default_factory=Counter)

    def held(self, job_id: UUID, token: int) -> Job | None:
        """Return the job if it has this token."""
        job = self.jobs.get(job_id)
        return job if job is not None and job.token == token else None

    def holder_of(self, firm_id: int, key: str | None) -> UUID | None:
        """Return the live job that holds this idempotency key."""
        for job in self.jobs.values():
            if key is not None and job.live and (job.firm_id, job.key) == (firm_id, key):
                return job.job_id
        return None

    def move(self, job: Job, status: Status) -> None:
        """Give the job this status, and free its slot."""
        job.status = status
        job.slot = None
        job.touched = self.now
        job.completed = None if status is Status.PENDING else self.now

    def keep(self, job_id: UUID, series: int, number: int, end: AttemptEnd, **more: bool) -> None:
        """Add the end of an attempt to the history."""
        self.history.append(Ended(job_id, series, number, end, self.now, **more))

    def bury(self, job: Job, reason: DeadReason) -> None:
        """Open a dead letter."""
        self.letters[job.job_id, job.series] = Letter(job.firm_id, reason)

    def count(self, job: Job, word: str) -> None:
        """Count one settled job."""
        self.counters[job.firm_id, job.kind.category, self.now // 60, word] += 1

    def admit(self, keys: Iterable[LockKey]) -> int:
        """Give free slots to the first jobs in line of each key; no job overtakes another."""
        admitted = 0
        for firm_id, lock_key in sorted(set(keys)):
            while self._admit_one(firm_id, lock_key):
                admitted += 1
        return admitted

    def _admit_one(self, firm_id: int, lock_key: str) -> bool:
        of_key = [
            job
            for job in self.jobs.values()
            if job.live and (job.firm_id, job.lock_key) == (firm_id, lock_key)
        ]
        line = [
            job
            for job in of_key
            if not job.ready
            and job.scheduled <= self.now
            and (job.expires is None or job.expires > self.now)
        ]
        if not line:
            return False
        first = min(line, key=lambda job: (job.priority, *job.place_in_line))
        taken = {job.slot for job in of_key if job.slot is not None}
        if len(taken) >= first.kind.lock_limit:
            return False
        first.slot = next(slot for slot in itertools.count() if slot not in taken)
        return True
