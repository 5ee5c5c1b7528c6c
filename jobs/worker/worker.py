"""The claiming loop of one worker process, from its start to its last acknowledgement."""

from __future__ import annotations

import os
import socket
import time

from django.db import DatabaseError, connection

from jobs import VERSION, registry
from jobs.engine.admission import admit
from jobs.engine.claim import Claim, claim
from jobs.engine.fair_share import FairShare
from jobs.engine.lease import WorkerInfo, deregister
from jobs.engine.outcomes import Released, Settlement
from jobs.engine.release import release, release_lost
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.wakeup import wake
from jobs.execution.events import Event, emit, emit_released
from jobs.execution.executor import timed_out
from jobs.execution.telemetry import CLAIM_SECONDS
from jobs.worker.completer import Completer
from jobs.worker.database import AWAY, Outage, refresh_connection
from jobs.worker.heartbeat import Pulse, WorkerDescription
from jobs.worker.listener import Listener
from jobs.worker.maintenance import Maintenance
from jobs.worker.options import WorkerOptions
from jobs.worker.pending_work import Lookout
from jobs.worker.pool import Pool
from jobs.worker.state import WorkerState
from tenants.rls import check_at_start

LARGEST_CLAIM = 500
DRAIN_SECONDS = 30.0
# A signal that comes while all threads are busy is seen within this time.
BUSY_LOOK_SECONDS = 0.2
# So is the end of the last handler of a burst.
BURST_LOOK_SECONDS = 0.02
# Rather more than asked for: with its heartbeats, an idle worker makes about one query a second.
POLL_JITTER = (1.2, 1.6)


class WorkerLoop:
    """One worker: claims, hands over, and ends in order."""

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.state = WorkerState()
        self._fair_share = FairShare()
        self._claimed = 0
        # The database may have made a claim of which this worker was never told.
        self._claim_in_doubt = False
        self._outage = Outage(self.state.rng, self.state.stopping)
        self._pool = Pool(self.state, options.concurrency)
        self._completer = Completer(self.state, self._pool.forget)
        self._pulse = Pulse(self.state, self._pool, self._description(), self.stop)
        self._lookout = Lookout(options.categories, options.job_types)
        # The last wait was for nothing: look before a claim, which costs the database more.
        self._looks_first = False
        self._maintenance = Maintenance(self.state, self._lookout, schedules=options.ticks)
        self._listener = Listener(self.state)

    def stop(self) -> None:
        """Ask the loop to end; safe to call from a signal handler."""
        self.state.stopping.set()
        self._listener.wake()

    def is_ready(self) -> bool:
        """Say whether the worker holds its lease and takes work."""
        return self.state.lease.trusted and not self.state.stopping.is_set()

    def run(self) -> None:
        """Work until stopped, or until there is nothing left to do (`burst`, `max_jobs`)."""
        if not self._start():
            return
        try:
            while not self.state.stopping.is_set() and self._turn():
                pass
        finally:
            self._shut_down()

    def _start(self) -> bool:
        """Register and start the threads, waiting for a database that is not there yet."""
        while not self.state.stopping.is_set():
            try:
                refresh_connection()
                check_at_start()
                self._pulse.start()
            except AWAY as error:
                self._outage.failed(error)
            else:
                self._outage.over()
                self._completer.start()
                self._pool.start(self._completer)
                self._maintenance.start()
                self._listener.start()
                emit(
                    Event.WORKER_STARTED,
                    worker_id=str(self.state.worker_id),
                    concurrency=self.options.concurrency,
                )
                return True
        return False

    def _enough(self) -> bool:
        return self.options.max_jobs is not None and self._claimed >= self.options.max_jobs

    def _turn(self) -> bool:
        """Claim what there is room for, or wait. False: there is nothing left to do."""
        if self._enough():
            return not self._pool.wait_until_idle(BUSY_LOOK_SECONDS)
        wanted = min(self._pool.wanted(), LARGEST_CLAIM)
        if self.options.max_jobs is not None:
            wanted = min(wanted, self.options.max_jobs - self._claimed)
        if not self.state.lease.trusted:
            self.state.stopping.wait(BUSY_LOOK_SECONDS)
            return True
        if wanted <= 0:
            self._pool.wait_for_room(BUSY_LOOK_SECONDS)
            return True
        try:
            refresh_connection()
            if not self._is_worth_a_claim():
                self._outage.over()
                return self._rest()
            claims = self._claim(wanted)
            self._outage.over()
            if not claims:
                return self._rest()
        except AWAY as error:
            self._outage.failed(error)
            return True
        self._looks_first = False
        self._claimed += len(claims)
        self._pool.put(claims)
        return True

    def _is_worth_a_claim(self) -> bool:
        """Ask the database where nothing hints at work; a claim in doubt is put right by the next."""
        if self._claim_in_doubt or not self._looks_first:
            return True
        return self._lookout.look().claimable

    def _claim(self, wanted: int) -> list[Claim]:
        if self._claim_in_doubt:
            lost = release_lost(self.state.worker_id, self._pool.known_tokens())
            emit_released(lost)
            admit(ReleasedCapacity.of_jobs(lost))
        self._claim_in_doubt = True
        with CLAIM_SECONDS.time():
            claims = claim(
                self.state.worker_id,
                wanted,
                self._fair_share,
                categories=self.options.categories,
                job_types=self.options.job_types,
                starts=self._pool.starts_at_once,
            )
        self._claim_in_doubt = False
        return claims

    def _rest(self) -> bool:
        """Wait for a hint or the next poll. False: a burst is done."""
        if not self.options.burst:
            seconds = self.options.poll_seconds * self.state.rng.uniform(*POLL_JITTER)
            self._looks_first = not self._listener.wait(seconds)
            return True
        if not (self._pool.idle and self._completer.idle):
            self._listener.wait(BURST_LOOK_SECONDS)
            return True
        self._maintenance.run_once()
        claims = self._claim(1)
        self._claimed += len(claims)
        self._pool.put(claims)
        return bool(claims)

    def _shut_down(self) -> None:
        """Give unstarted jobs back, let running ones finish, release the rest, say goodbye."""
        emit(Event.WORKER_STOPPING, worker_id=str(self.state.worker_id))
        self.state.stopping.set()
        if self.state.broken.is_set():
            # Leases give back what it holds: writing on with half a worker could do harm.
            self.state.halt.set()
            self._listener.stop()
            return
        deadline = time.monotonic() + self.options.grace_seconds
        self._give_back(self._pool.take_back())
        if not self._pool.wait_until_idle(max(deadline - time.monotonic(), 0.0)):
            self._completer.submit(self._unfinished())
        drained = self._completer.drain(DRAIN_SECONDS)
        self.state.halt.set()
        self._listener.stop()
        if drained:
            self._leave()
        emit(Event.WORKER_STOPPED, worker_id=str(self.state.worker_id), jobs=self._claimed)
        connection.close()

    def _unfinished(self) -> list[Settlement]:
        """Say what becomes of handlers that outlive the worker, and of jobs next in their turn."""
        now = time.monotonic()
        overdue = [
            Settlement(
                one.claim,
                timed_out(one.claim, rng=self.state.rng, message=one.blame),
                now - one.since,
            )
            for one in self._pool.running()
            if one.interrupted
        ]
        return overdue + [
            Settlement(claim, Released("worker stopped"), None) for claim in self._pool.abandon()
        ]

    def _give_back(self, claims: list[Claim]) -> None:
        try:
            released = set(release(claims, "worker stopped"))
            emit_released([claim for claim in claims if claim.job_id in released])
            admit(ReleasedCapacity.of_jobs(claims))
            if released:
                wake({one.category for one in claims})
        except DatabaseError as error:
            # The lease will end and they will be rescued, their attempts given back all the same.
            emit(Event.DATABASE_AWAY, error_class=type(error).__name__)

    def _leave(self) -> None:
        try:
            deregister(self.state.worker_id)
        except DatabaseError as error:
            emit(Event.DATABASE_AWAY, error_class=type(error).__name__)

    def _description(self) -> WorkerDescription:
        return WorkerDescription(
            WorkerInfo(
                worker_id=self.state.worker_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=VERSION,
                categories=self.options.categories,
                job_types=[declared.name for declared in registry.all_types()],
                concurrency=self.options.concurrency,
            )
        )
