"""The worker's pulse: heartbeats, and `processing` on jobs that have run for a while."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from django.db import connection

from jobs.conf import lease_seconds
from jobs.engine.lease import (
    WorkerInfo,
    cancel_requested,
    heartbeat,
    mark_processing,
    register,
)
from jobs.execution.events import Event, emit
from jobs.worker.database import AWAY, Outage, refresh_connection
from jobs.worker.pool import Pool
from jobs.worker.state import Lease, WorkerState

TICK_SECONDS = 0.05
MARK_AGAIN_SECONDS = 1.0
BEATS_PER_LEASE = 4
CANCEL_LOOK_SECONDS = 1.0


class Pulse:
    """Keeps the lease alive, from a thread that no handler can block."""

    def __init__(
        self,
        state: WorkerState,
        pool: Pool,
        describe: WorkerDescription,
        stop: Callable[[], None],
    ) -> None:
        self._state = state
        self._pool = pool
        self._describe = describe
        self._stop = stop
        self._next_cancel_look = 0.0

    def start(self) -> None:
        """Register the worker and start the thread.

        Raises:
            DatabaseError: the worker could not be registered.
        """
        self._register(self._state.lease)
        self._state.start_thread("pulse", self._loop)

    def _register(self, lease: Lease) -> None:
        begun = time.monotonic()
        if register(self._describe(lease)):
            lease.extended(begun)
        # Else it was given up while it asked again: the next beat starts over.

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        next_beat = time.monotonic() + lease_seconds() / BEATS_PER_LEASE
        while not self._state.halt.wait(TICK_SECONDS):
            self._pool.put_back_stalled()
            try:
                if time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + lease_seconds() / BEATS_PER_LEASE
                    self._beat()
                self._mark_processing()
                self._pass_on_cancel_requests()
                self._end_overdue()
                outage.over()
            except AWAY as error:
                outage.failed(error)
        connection.close()

    def _beat(self) -> None:
        refresh_connection()
        lease = self._state.lease
        begun = time.monotonic()
        if heartbeat(lease.worker_id, _resident_bytes()):
            lease.extended(begun)
        else:
            self._start_over(lease)

    def _start_over(self, lost: Lease) -> None:
        """The worker was marked dead while it was away: drop its work, go on under a new id."""
        emit(Event.WORKER_MARKED_DEAD, worker_id=str(lost.worker_id))
        fresh = self._state.lose_lease(lost.worker_id)
        if fresh is None:
            return
        self._pool.take_back()
        self._pool.running.disown()
        self._register(fresh)

    def _mark_processing(self) -> None:
        now = time.monotonic()
        due = [one for one in self._pool.running() if one.mark_at <= now]
        marked = mark_processing([one.claim for one in due])
        self._pool.write_down([one.claim for one in due if one.claim.started])
        for one in due:
            # A row that somebody held will be free again.
            one.mark_at = inf if one.claim.job_id in marked else now + MARK_AGAIN_SECONDS

    def _pass_on_cancel_requests(self) -> None:
        """Ask the database now and then whether a running job should stop."""
        running = self._pool.running()
        if not running or time.monotonic() < self._next_cancel_look:
            return
        self._next_cancel_look = time.monotonic() + CANCEL_LOOK_SECONDS
        self._pool.running.cancel(cancel_requested([one.claim.job_id for one in running]))

    def _end_overdue(self) -> None:
        """Interrupt handlers past their timeout; one that ignores it ends this process."""
        stuck = self._pool.running.interrupt_overdue()
        if stuck and not self._state.stuck.is_set():
            for one in stuck:
                emit(
                    Event.HANDLER_STUCK,
                    job_id=str(one.claim.job_id),
                    job_type=one.claim.job_type,
                    tenant_id=one.claim.firm_id,
                )
            self._state.stuck.set()
            self._stop()


class WorkerDescription:
    """Says who the worker is, under whichever lease."""

    def __init__(self, info: WorkerInfo) -> None:
        self._info = info

    def __call__(self, lease: Lease) -> WorkerInfo:
        """Return the description with the id of this lease."""
        return WorkerInfo(**{**vars(self._info), "worker_id": lease.worker_id})


def _resident_bytes() -> int:
    """Return the memory the process holds now; where the system does not tell, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()
