"""The worker's heartbeats, and the regular checks of its running handlers."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

from django.db import connection

from jobs.conf import lease_seconds
from jobs.engine.lease import (
    HEARTBEATS_PER_LEASE,
    WorkerInfo,
    cancel_requested,
    heartbeat,
    mark_processing,
    read_request,
    register,
    write_request,
)
from jobs.execution.events import Event, emit
from jobs.execution.metrics import RESCUED
from jobs.states import WorkerRequest
from jobs.worker.pool import Pool
from jobs.worker.running import PROCESSING_AFTER_SECONDS
from jobs.worker.state import AWAY, Lease, Outage, SharedState, refresh_own_connection

TICK_SECONDS = 0.05
# The tick of the watch over timeouts while nothing runs.
IDLE_TICK_SECONDS = 0.2
RETRY_PROCESSING_SECONDS = 1.0
CANCEL_CHECK_SECONDS = 1.0
# The pause between two signs of life of a supervised worker, and their least number in a lease.
LIVENESS_SECONDS = 0.25
LIVENESS_PER_LEASE = 16


class Heartbeat:
    """Extends the lease. While a handler holds the interpreter's lock, the supervisor does."""

    def __init__(
        self,
        state: SharedState,
        pool: Pool,
        info: WorkerInfo,
        stop: Callable[[], None],
        drain: Callable[[], None],
    ) -> None:
        self._state = state
        self._pool = pool
        self._info = info
        self._stop = stop
        self._drain = drain
        self._requested = ""
        self._next_cancel_check = 0.0
        self._beating = threading.Lock()
        self._has_beaten = threading.Event()

    def start(self) -> None:
        """Register the worker, start the thread, and wait for its first heartbeat, or for a stop.

        Nothing is claimed before, because the lease could end while the thread has no connection.

        Raises:
            DatabaseError: the worker could not be registered.
        """
        self._register(self._state.lease)
        self._state.start_thread("heartbeat", self._loop)
        self._state.start_thread("deadlines", self._watch_deadlines)
        if self._state.slots.shared:
            self._state.start_thread("liveness", self._show_life)
        while not (self._has_beaten.is_set() or self._state.stopping.is_set()):
            self._has_beaten.wait(TICK_SECONDS)

    def wait_for_last(self) -> None:
        """Wait for a heartbeat that is under way; after a halt none follows.

        A heartbeat that finds its row deleted would register the worker again.
        """
        with self._beating:
            pass

    def _register(self, lease: Lease) -> None:
        requested_at = time.monotonic()
        if register(replace(self._info, worker_id=lease.worker_id)):
            self._state.slots.name_worker(lease.worker_id)
            lease.extended(requested_at)
        # Otherwise the worker was marked dead in between: the next heartbeat replaces the lease.

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        pause = lease_seconds() / HEARTBEATS_PER_LEASE
        next_at = time.monotonic()
        tick = 0.0
        while not self._state.halt.wait(tick):
            tick = TICK_SECONDS
            self._pool.rebuffer_stalled()
            try:
                begun_at = time.monotonic()
                if begun_at >= next_at:
                    with self._beating:
                        if not self._state.halt.is_set():
                            self._beat()
                    # A heartbeat that failed stays due; the outage decides when it is tried again.
                    next_at = begun_at + pause
                    self._has_beaten.set()
                self._mark_processing()
                self._pass_on_cancel_requests()
                outage.over()
            except AWAY as error:
                outage.failed(error)
        connection.close()

    def _show_life(self) -> None:
        """Show life, on a thread of its own: neither an outage nor a locked row may delay it."""
        pause = min(LIVENESS_SECONDS, lease_seconds() / LIVENESS_PER_LEASE)
        slots = self._state.slots
        while not self._state.halt.wait(pause):
            slots.show_life()
            RESCUED.inc(slots.take_rescued())

    def _watch_deadlines(self) -> None:
        """Watch timeouts on a thread of its own, which no outage or SQLite transaction delays."""
        pause = TICK_SECONDS
        while not self._state.halt.wait(pause):
            self._interrupt_overdue()
            pause = TICK_SECONDS if self._pool.running.all() else IDLE_TICK_SECONDS

    def _beat(self) -> None:
        refresh_own_connection()
        lease = self._state.lease
        requested_at = time.monotonic()
        if heartbeat(lease.worker_id, _resident_bytes()):
            lease.extended(requested_at)
            self._follow(read_request(lease.worker_id))
        else:
            self._replace_lease(lease)

    def _follow(self, request: str) -> None:
        """Do what an operator asks, once."""
        if request == self._requested:
            return
        emit(Event.WORKER_ASKED, worker_id=str(self._state.worker_id), request=request or "resume")
        self._requested = request
        if request == WorkerRequest.QUIET:
            self._state.quiet.set()
        elif not request:
            self._state.quiet.clear()
        else:
            self._state.slots.end_for_good()
            (self._drain if request == WorkerRequest.DRAIN else self._stop)()

    def _replace_lease(self, lost: Lease) -> None:
        """Drop the work of a worker that was marked dead, and continue under a new id."""
        emit(Event.WORKER_MARKED_DEAD, worker_id=str(lost.worker_id))
        fresh = self._state.replace_lease(lost)
        if fresh is None:
            return
        self._pool.take_unstarted()
        self._pool.running.stop_all()
        self._register(fresh)
        if self._requested:
            # The row of the new lease does not have the request yet.
            write_request(fresh.worker_id, self._requested)

    def _mark_processing(self) -> None:
        now = time.monotonic()
        due = []
        for one in self._pool.running.all():
            if one.processing_at is None:
                one.processing_at = one.started_at + PROCESSING_AFTER_SECONDS
            if one.processing_at <= now:
                due.append(one)
        marked = mark_processing([one.claim for one in due])
        if any(one.claim.started for one in due):
            # The claim recorded the start. Now that the handler runs for longer, the worker's row
            # names it too.
            self._pool.record_started()
        for one in due:
            # A row that is locked is skipped; try again.
            found = one.claim.job_id in marked
            one.processing_at = inf if found else now + RETRY_PROCESSING_SECONDS

    def _pass_on_cancel_requests(self) -> None:
        running = self._pool.running.all()
        if not running or time.monotonic() < self._next_cancel_check:
            return
        self._next_cancel_check = time.monotonic() + CANCEL_CHECK_SECONDS
        self._pool.running.cancel(cancel_requested([one.claim.job_id for one in running]))

    def _interrupt_overdue(self) -> None:
        """Interrupt handlers past their timeout; one that cannot be ended ends the worker."""
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


def _resident_bytes() -> int:
    """Return the process's memory; its peak if the system does not report the current size."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()
