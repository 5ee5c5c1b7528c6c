"""The claiming loop of one worker process, from its start to its orderly end."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from django.db import DatabaseError, connection

from jobs import VERSION, registry
from jobs.engine.admission import admit
from jobs.engine.claim import Claim, largest_claim
from jobs.engine.lease import WorkerInfo, deregister
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Released, Settlement
from jobs.engine.pending_work import PendingWorkReader
from jobs.engine.release import release
from jobs.engine.wakeup import wake
from jobs.execution.events import Event, emit, emit_released
from jobs.execution.executor import timed_out
from jobs.worker.claimer import Claimer
from jobs.worker.completer import Completer
from jobs.worker.heartbeat import Heartbeat
from jobs.worker.listener import Listener
from jobs.worker.maintenance import Maintenance
from jobs.worker.pool import Pool
from jobs.worker.running_slots import RunningSlots
from jobs.worker.state import AWAY, Outage, SharedState, refresh_connection, refresh_own_connection
from tenants.rls import require_rls

DRAIN_SECONDS = 30.0
# While all threads are busy, a stop is noticed within this time.
BUSY_CHECK_SECONDS = 0.2
GIVE_BACK_SECONDS = 0.1
# The end of the last handler of a burst is noticed within this time.
BURST_CHECK_SECONDS = 0.02
# Longer than configured, so that an idle worker makes about one query a second with its heartbeats.
POLL_JITTER = (1.2, 1.6)


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of `runworker`; empty `categories` and `job_types` mean all."""

    concurrency: int
    poll_seconds: float
    grace_seconds: float
    categories: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()
    burst: bool = False
    scheduler: bool = True
    max_jobs: int | None = None


class WorkerLoop:
    """One worker: claims jobs, hands them to its pool, and ends in order."""

    def __init__(self, options: WorkerOptions, slots: RunningSlots | None = None) -> None:
        self.options = options
        self.state = SharedState(slots or RunningSlots.private(options.concurrency))
        self._give_back_at = 0.0
        self._outage = Outage(self.state.rng, self.state.stopping)
        self._completer = Completer(self.state)
        self._listener = Listener(self.state)
        self._pool = Pool(
            self.state,
            options.concurrency,
            self._completer.submit,
            self._completer.unsettled,
            self._completer.expect_no_more,
            self._listener.wake,
        )
        drain = partial(self.stop, drain=True)
        self._heartbeat = Heartbeat(self.state, self._pool, self._info(), self.stop, drain)
        self._pending_work = PendingWorkReader(options.categories, options.job_types)
        # Whether the last wait ended without a hint: pending work is then read before a claim,
        # which costs more.
        self._reads_first = False
        # A burst ends when the present work is done, so it runs no schedules.
        schedules = options.scheduler and not options.burst
        self._maintenance = Maintenance(self.state, self._pending_work, schedules=schedules)
        self._claimer = Claimer(
            self.state,
            self._pool,
            self._completer,
            self._listener,
            categories=options.categories,
            job_types=options.job_types,
        )

    def stop(self, *, drain: bool = False) -> None:
        """Ask the loop to end, from any thread; with `drain`, jobs may outlast the grace."""
        (self.state.draining.set if drain else self.state.draining.clear)()
        self.state.stopping.set()
        self._listener.wake()

    def is_ready(self) -> bool:
        """Say whether the worker holds its lease, and is not about to end."""
        return self.state.lease.trusted and not self.state.stopping.is_set()

    def run(self) -> None:
        """Work until stopped, or until a burst or `max_jobs` is done."""
        if not self._start():
            return
        try:
            while not self.state.stopping.is_set() and self._claim_or_wait():
                pass
        finally:
            self._shut_down()

    def _start(self) -> bool:
        """Register and start the threads, waiting for the database; False if stopped before."""
        while not self.state.stopping.is_set():
            try:
                refresh_connection()
                require_rls()
                self._maintenance.table.look()
                self._heartbeat.start()
            except AWAY as error:
                self._outage.failed(error)
            else:
                self._outage.over()
                self._completer.start()
                self._pool.start()
                self._maintenance.start()
                self._listener.start()
                emit(
                    Event.WORKER_STARTED,
                    worker_id=str(self.state.worker_id),
                    concurrency=self.options.concurrency,
                )
                return True
        return False

    def _claim_or_wait(self) -> bool:
        """Claim as many jobs as are wanted, or wait; False when the work is done."""
        self._give_back()
        wanted = min(self._pool.wanted(), largest_claim())
        if self.options.max_jobs is not None:
            if self._jobs_left() <= 0:
                return not self._pool.wait_until_idle(BUSY_CHECK_SECONDS) or self._jobs_left() > 0
            wanted = min(wanted, self._jobs_left())
        if self.state.quiet.is_set() or not self.state.lease.trusted:
            self.state.stopping.wait(BUSY_CHECK_SECONDS)
            return True
        if wanted <= 0:
            self._pool.wait_for_room(BUSY_CHECK_SECONDS)
            return True
        try:
            refresh_own_connection()
            self._listener.take_hint()
            claimed = self._may_claim() and self._claim(wanted)
            self._outage.over()
            return claimed or self._wait()
        except AWAY as error:
            self._outage.failed(error)
            return True

    def _jobs_left(self) -> int:
        """Return how many of `max_jobs` are still to be claimed; jobs given back do not count."""
        return (self.options.max_jobs or 0) - self._claimer.claimed + self._pool.given_back

    def _may_claim(self) -> bool:
        if self._claimer.in_doubt or not self._reads_first:
            return True
        return self._pending_work.read().claimable

    def _claim(self, wanted: int) -> bool:
        """Claim jobs and hand them to the pool; False when there were none."""
        claims = self._claimer.claim(wanted)
        self._pool.add(claims)
        if claims:
            self._reads_first = False
        return bool(claims)

    def _wait(self) -> bool:
        """Wait for a hint or the next poll; False when a burst is done."""
        if not self.options.burst:
            seconds = self.options.poll_seconds * self.state.rng.uniform(*POLL_JITTER)
            if self._pool.buffered or self._claimer.in_doubt:
                # Claims that wait for too long, or were locked, have to be given back soon.
                seconds = min(seconds, BUSY_CHECK_SECONDS)
            self._reads_first = not self._listener.wait(seconds)
            return True
        if not (self._pool.idle and self._completer.idle):
            self._listener.wait(BURST_CHECK_SECONDS)
            return True
        # Asked before, because the guard may end after a maintenance that rescued nobody.
        awaits_rescue = self._maintenance.awaits_rescue()
        self._maintenance.run_once()
        if self._claim(1):
            return True
        if awaits_rescue:
            self._listener.wait(BUSY_CHECK_SECONDS)
        return awaits_rescue

    def _give_back(self) -> None:
        """Release the claims that wait too long for a thread: another worker may be idle."""
        now = time.monotonic()
        if now < self._give_back_at:
            return
        self._give_back_at = now + GIVE_BACK_SECONDS
        overdue = self._pool.take_overdue()
        if overdue:
            self._release(overdue, "another worker may start it sooner")

    def _shut_down(self) -> None:
        """Release unstarted jobs, let running ones finish, release the rest, and deregister."""
        emit(Event.WORKER_STOPPING, worker_id=str(self.state.worker_id))
        self.state.stopping.set()
        if self.state.broken.is_set():
            # Nothing more is written: others rescue its jobs when the lease ends.
            self.state.halt.set()
            self._listener.stop()
            return
        deadline = time.monotonic() + self.options.grace_seconds
        self._release(self._pool.take_unstarted(), "worker stopped")
        while self._drains() and not self._pool.wait_until_idle(BUSY_CHECK_SECONDS):
            deadline = time.monotonic() + self.options.grace_seconds
        if not self._pool.wait_until_idle(max(deadline - time.monotonic(), 0.0)):
            self._completer.submit(self._unfinished())
        drained = self._completer.drain(DRAIN_SECONDS)
        if self._claimer.in_doubt:
            self._try_once(self._claimer.release_lost)
        self._try_once(self.state.rollups.store)
        self.state.halt.set()
        self._listener.stop()
        self._heartbeat.wait_for_last()
        if drained:
            self._try_once(self._deregister)
        emit(Event.WORKER_STOPPED, worker_id=str(self.state.worker_id), jobs=self._claimer.claimed)
        connection.close()

    def _drains(self) -> bool:
        return self.state.draining.is_set() and not self.state.broken.is_set()

    def _unfinished(self) -> list[Settlement]:
        """Return the outcomes of handlers that outlive the worker: timed out, else released."""
        now = time.monotonic()
        rng = self.state.rng
        overdue = [
            Settlement(
                one.claim, timed_out(one.claim, rng=rng, message=one.error), now - one.started_at
            )
            for one in self._pool.running.all()
            if one.interrupted
        ]
        # The first outcome of a claim counts. These have started, so their tokens are used.
        return overdue + [
            Settlement(one.claim, Released("worker stopped"), now - one.started_at)
            for one in self._pool.abandon()
        ]

    def _release(self, claims: list[Claim], reason: str) -> None:
        try:
            released = release(claims, reason)
            emit_released([(one, released[one.job_id]) for one in claims if one.job_id in released])
            # Others have locked these, or have them: the completer finds out, and tries again.
            left = [claim for claim in claims if claim.job_id not in released]
            self._completer.submit([Settlement(claim, Released(reason), None) for claim in left])
            admit(ReleasedCapacity.of_jobs(claims))
            if released:
                wake({one.category for one in claims})
        except DatabaseError as error:
            # The next claim releases them, or the end of the worker.
            self._claimer.in_doubt = True
            emit(Event.DATABASE_AWAY, error_class=type(error).__name__)

    def _try_once(self, write: Callable[[], object]) -> None:
        """Run `write`; if it fails, other workers rescue what has no worker any more."""
        try:
            refresh_connection()
            write()
        except DatabaseError as error:
            emit(Event.DATABASE_AWAY, error_class=type(error).__name__)

    def _deregister(self) -> None:
        deregister(self.state.worker_id)
        self.state.slots.end_in_order()

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
            worker_id=self.state.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            categories=self.options.categories,
            job_types=self.options.job_types
            or [declared.name for declared in registry.all_types()],
            concurrency=self.options.concurrency,
        )
