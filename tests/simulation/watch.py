"""What must hold after every commit, at every start of a handler, and at the end.

A violation is noted and not raised, because the product's code would catch the error.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from traceback import format_exc
from typing import Any
from uuid import UUID

from django.db import connection

from jobs.execution import events
from jobs.execution.context import JobContext
from jobs.execution.events import Event
from jobs.models import DeadLetterQueue, JobQueue
from jobs.states import IN_FLIGHT, LIVE, MAX_DEATHS, QUARANTINE_DEATHS, DeadReason, Status
from tenants.scope import all_firms
from tests.simulation.fleet import SIDECAR, Fleet
from tests.simulation.scheduler import Scheduler
from tests.simulation.work import Does, Workshop
from tests.support import invariants

JOBS = """SELECT job_id, firm_id, status, attempts, max_attempts, lease_token, worker_id, deaths,
    lock_key, lock_limit, live_key, ready, waiting, admitted, scheduled_at > virtual_now() AS early
    FROM jobs_jobqueue"""
LOCKS = "SELECT holder_id FROM jobs_concurrencylock"
LEASES = "SELECT id FROM jobs_worker WHERE dead_at IS NULL AND lease_expires_at >= virtual_now()"
CAPS = "SELECT id, running_cap FROM tenants_firm WHERE running_cap IS NOT NULL"
EFFECTS = "SELECT job_id, count(*) FROM test_effect GROUP BY job_id"


@dataclass(frozen=True)
class Row:
    """The row of a job after a commit."""

    job_id: str
    firm_id: int
    status: str
    attempts: int
    max_attempts: int
    token: int
    worker_id: str | None
    deaths: int
    lock_key: str | None
    lock_limit: int
    live_key: str | None
    ready: bool
    waiting: bool
    admitted: bool
    early: bool

    @property
    def in_flight(self) -> bool:
        """Whether the job is in flight."""
        return self.status in IN_FLIGHT

    @property
    def counts(self) -> bool:
        """Whether the job counts under the cap of its firm."""
        return self.ready and (self.admitted or self.status != Status.PENDING)


class Watch:
    """Watches one run, and keeps the first violation."""

    def __init__(self, scheduler: Scheduler, fleet: Fleet) -> None:
        self.violation = ""
        # Whether the database's clock has never jumped; only then a trusted lease has to be valid.
        self.honest_clock = True
        self._scheduler = scheduler
        self._fleet = fleet
        # The jobs, locks and caps as of the last commit.
        self._tables: tuple[list[Any], ...] = ([], [], [])
        self._rows: dict[str, Row] = {}
        self._counted: Counter[int] = Counter()
        # The tokens of the claims whose handlers were started, by job, worker and attempt.
        self._fences: dict[tuple[str, str, int], int] = {}
        self._started: set[int] = set()
        # The claims that ran in each worker process whose death was reported, by the worker's id.
        self._ran_at_death: dict[str, frozenset[int]] = {}

    def install(self) -> None:
        """Subscribe to the events of workers."""
        events.subscribe(Event.ATTEMPT_STALE, self._told_stale)
        events.subscribe(Event.WORKER_BROKEN, self._told_broken)

    def require(self, holds: bool, what: str) -> None:
        """Note a violation unless `holds` is true."""
        if not holds:
            self.fail(what)

    def fail(self, what: str) -> None:
        """Note a violation unless there is one already."""
        self.violation = self.violation or what

    def committed(self) -> None:
        """Check the tables after a commit."""
        raw: sqlite3.Connection = connection.connection
        self._check_trust(raw)
        tables = (
            raw.execute(JOBS).fetchall(),
            raw.execute(LOCKS).fetchall(),
            raw.execute(CAPS).fetchall(),
        )
        if tables == self._tables:
            return
        before = {values[0]: values for values in self._tables[0]}
        self._tables = tables
        jobs, locks, caps = tables
        for values in jobs:
            if before.get(values[0]) != values:
                row = Row(*values)
                self._check_row(row, self._rows.get(row.job_id))
                self._rows[row.job_id] = row
        rows = self._rows.values()
        self._check_keys(rows)
        self._check_locks(rows, locks)
        self._check_caps(rows, dict(caps))

    def started(self, ctx: JobContext) -> None:
        """Check, when a handler starts, that its claim is in force and was not started before."""
        self.require(ctx.fence not in self._started, f"claim {ctx.fence} was started twice")
        self._started.add(ctx.fence)
        process = self._scheduler.running.process
        worker = self._fleet.worker_of(process)
        if worker is None:
            return
        worker_id = str(worker.loop.state.worker_id)
        self._fences[str(ctx.job_id), worker_id, ctx.attempt] = ctx.fence
        if self.honest_clock:
            row = self._rows[ctx.job_id.hex]
            self.require(
                row.token == ctx.fence and row.in_flight,
                f"{process.name} started {ctx.job_id}, which it no longer held: {row}",
            )

    def reported(self, worker_id: UUID, running: Collection[int]) -> None:
        """Note a reported death; `running` are the claims that ran in any process."""
        self._ran_at_death[worker_id.hex] = frozenset(running)

    def over(self, accepted: Collection[UUID], workshop: Workshop) -> None:
        """Check what is left when all workers have ended."""
        self.require(not self._fleet.ended_by_signals, "a repeated SIGTERM ended a worker at once")
        with all_firms("checking the invariants"):
            jobs = {job.job_id: job for job in JobQueue.objects.all()}
            letters = list(DeadLetterQueue.objects.all())
        self.require(jobs.keys() >= set(accepted), "a job was lost")
        effects = dict(connection.connection.execute(EFFECTS))
        for job in jobs.values():
            self._check_end(job, workshop, effects.get(str(job.job_id), 0))
        for letter in letters:
            self._check_letter(letter, jobs[letter.original_job_id], workshop)
        try:
            invariants.check(jobs, workshop, expected_dead={one.original_job_id for one in letters})
        except AssertionError as error:
            self.fail(str(error))

    def unsettled(self) -> list[Row]:
        """Return the jobs that have not ended."""
        return [row for row in self._rows.values() if row.status in LIVE]

    def _check_row(self, row: Row, before: Row | None) -> None:
        live = row.status in LIVE
        self.require(0 <= row.attempts <= row.max_attempts, f"attempts out of range: {row}")
        self.require((row.ready != row.waiting) == live, f"neither ready nor waiting: {row}")
        self.require(live or row.live_key is None, f"the key of a finished job is kept: {row}")
        held = row.token > 0 and row.worker_id is not None
        self.require(held == row.in_flight, f"in flight without a holder, or held: {row}")
        if row.in_flight and (before is None or not before.in_flight):
            self.require(not row.early, f"claimed before its time: {row}")
        if before is not None and before.status not in LIVE:
            self.require(row.status == before.status, f"left its end: {before} -> {row}")
        if before is not None and before.in_flight and not row.in_flight:
            self.require(
                row.token in (0, -before.token), f"moved by a strange token: {before} -> {row}"
            )
            self._check_report(row, before)

    def _check_report(self, row: Row, before: Row) -> None:
        """Check that a reported job counts its attempt if it ran, and only then."""
        actor = self._scheduler.current
        if actor is None or actor.name != SIDECAR or before.deaths >= QUARANTINE_DEATHS:
            return
        ran = before.token in self._ran_at_death[str(before.worker_id)]
        counted = (row.attempts, row.deaths) == (before.attempts, before.deaths + 1)
        given_back = (row.attempts, row.deaths) == (before.attempts - 1, before.deaths)
        self.require(counted if ran else given_back, f"ran: {ran}: {before} -> {row}")

    def _check_keys(self, rows: Collection[Row]) -> None:
        running = Counter(
            (row.firm_id, row.lock_key, row.lock_limit)
            for row in rows
            if row.in_flight and row.lock_key is not None
        )
        by_key: Counter[tuple[int, str]] = Counter()
        limits: dict[tuple[int, str], int] = {}
        for (firm_id, key, limit), number in running.items():
            if key is not None:
                by_key[firm_id, key] += number
                limits[firm_id, key] = max(limit, limits.get((firm_id, key), 0))
        for held, number in by_key.items():
            self.require(number <= limits[held], f"{number} jobs of key {held} in flight at once")
        live = Counter((row.firm_id, row.live_key) for row in rows if row.live_key is not None)
        self.require(all(number == 1 for number in live.values()), "an idempotency key twice")

    def _check_locks(self, rows: Collection[Row], locks: Sequence[tuple[str]]) -> None:
        holders = sorted(holder.removeprefix("job:").replace("-", "") for (holder,) in locks)
        admitted = sorted(row.job_id for row in rows if row.lock_key is not None and row.ready)
        self.require(holders == admitted, f"slots held by {holders}, ready are {admitted}")

    def _check_caps(self, rows: Collection[Row], caps: Mapping[int, int]) -> None:
        """Check that no job is admitted beyond the cap; those from before the cap may end."""
        counted = Counter(row.firm_id for row in rows if row.counts)
        for firm_id, cap in caps.items():
            most = max(cap, self._counted[firm_id])
            self.require(counted[firm_id] <= most, f"{counted[firm_id]} under a cap of {cap}")
        self._counted = counted

    def _check_trust(self, raw: sqlite3.Connection) -> None:
        """Check that a worker that trusts its lease has one, however slow or wrong its clock is."""
        if not self.honest_clock:
            return
        leases = {one for (one,) in raw.execute(LEASES)}
        for name, worker in self._fleet.workers.items():
            lease = worker.loop.state.lease
            if worker.loop.state.halt.is_set():
                # The worker has ended its lease itself, and its row is gone.
                continue
            with self._scheduler.seen_by(worker.process):
                trusted = lease.trusted
            self.require(
                not trusted or lease.worker_id.hex in leases,
                f"{name} trusts a lease that is over",
            )

    def _check_end(self, job: JobQueue, workshop: Workshop, effects: int) -> None:
        plan = workshop.plans[job.payload["number"]]
        completed = job.status == Status.COMPLETED
        wanted = completed and plan.course == (Does.COMPLETES_IN_A_TRANSACTION,)
        self.require(effects == wanted, f"{job}: {effects} effects")
        never = {Does.FAILS, Does.GIVES_UP, Does.KILLS, Does.DAWDLES}
        self.require(not completed or plan.course[-1] not in never, f"{job} cannot have completed")

    def _check_letter(self, letter: DeadLetterQueue, job: JobQueue, workshop: Workshop) -> None:
        """Check that each dead letter has a reason that the job's row confirms."""
        plan = workshop.plans[job.payload["number"]]
        match letter.reason:
            case DeadReason.FATAL:
                due = Does.GIVES_UP in plan.course
            case DeadReason.POISON:
                due = job.deaths >= MAX_DEATHS
            case _:
                due = job.attempts == job.max_attempts
        self.require(due, f"{job} was given up as {letter.reason} for nothing")

    def _told_stale(self, fields: Mapping[str, Any]) -> None:
        """Check that an outcome called stale was not settled by the same claim before.

        This cannot be seen once another worker has claimed the job.
        """
        fence = self._fences.get((fields["job_id"], fields["worker_id"], fields["attempt"]))
        row = self._rows[UUID(fields["job_id"]).hex]
        self.require(fence is None or row.token != -fence, f"its own work was called stale: {row}")

    def _told_broken(self, fields: Mapping[str, Any]) -> None:
        if not self._scheduler.closing:
            self.fail(f"the thread {fields['thread']} fell: {format_exc()}")
