"""The claims that were started, and the handlers that run now."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from jobs import registry
from jobs.engine.claim import Claim
from jobs.engine.lease import note_running
from jobs.worker.eventloop import EventLoop, EventLoopRunner
from jobs.worker.state import AWAY, Outage, SharedState
from jobs.worker.threads import Runner, StopReason

# A handler that still runs this long after it was told to stop is ended by force.
INTERRUPT_SECONDS = 10.0
# Shorter jobs go from claimed to completed directly: one write less.
PROCESSING_AFTER_SECONDS = 0.05
BLOCKED = "kept the event loop from turning: await in it, or declare it with def"


class StartedClaims:
    """The claims that were handed to threads and are not settled: what the worker's row names.

    They are recorded before their handlers start: if the worker dies, only their attempts count.
    """

    def __init__(self, state: SharedState) -> None:
        self._state = state
        # By lease token, which is unique to a claim.
        self._claims: dict[int, Claim] = {}
        # Their ids as they are stored, converted once: the list is written over and over.
        self._ids: dict[int, bytes] = {}
        self._changing = threading.Lock()
        self._writing = threading.Lock()
        # The lease tokens of the list as it was last written.
        self._recorded: frozenset[int] = frozenset()

    def add(self, claims: Sequence[Claim]) -> None:
        """Add claims to the list."""
        with self._changing:
            for claim in claims:
                self._claims[claim.lease_token] = claim
                self._ids[claim.lease_token] = claim.job_id.bytes

    def remove(self, claims: Sequence[Claim]) -> None:
        """Remove settled claims from the list."""
        with self._changing:
            for claim in claims:
                self._claims.pop(claim.lease_token, None)
                self._ids.pop(claim.lease_token, None)

    def all(self) -> list[Claim]:
        """Return the list."""
        with self._changing:
            return list(self._claims.values())

    def record_before_start(self, claims: Sequence[Claim]) -> bool:
        """Record these claims, waiting out outages; False when the lease is lost."""
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.is_set():
            lease = self._state.lease
            if not all(lease.covers(claim) for claim in claims):
                return False
            try:
                recorded = self.record(claims)
                outage.over()
            except AWAY as error:
                outage.failed(error)
            else:
                return recorded
        return False

    def record(self, claims: Sequence[Claim]) -> bool:
        """Write the list to the worker's row unless it names these; False when the lease is lost.

        Raises:
            DatabaseError: it may have been written or not.
        """
        tokens = {claim.lease_token for claim in claims}
        with self._writing:
            return tokens <= self._recorded or self._write()

    def _write(self) -> bool:
        lease = self._state.lease
        with self._changing:
            claims = list(self._claims.values())
            ids = b"".join(self._ids.values())
        if not note_running(lease.worker_id, ids):
            return False
        self._recorded = frozenset([claim.lease_token for claim in claims if lease.covers(claim)])
        return True


@dataclass(slots=True)
class RunningHandler:
    """A handler that runs; times are of the monotonic clock.

    `interrupted`: told to stop for its timeout, or because it blocks the event loop, as `error`
    then says. `stuck`: it can only be ended together with this process.
    """

    claim: Claim
    runner: Runner
    started_at: float
    deadline: float
    processing_at: float
    canceled: bool = False
    interrupted: bool = False
    stuck: bool = False
    error: str = ""


class RunningHandlers:
    """Guarded by the pool's `lock`; notifies `changed` when handlers are found to be stuck.

    Runners are stopped under the lock too: a runner's process may be given another job at once.
    """

    def __init__(
        self, lock: threading.RLock, changed: threading.Condition, event_loop: EventLoop
    ) -> None:
        # By lease token, which is unique to a claim.
        self._running: dict[int, RunningHandler] = {}
        self._lock = lock
        self._changed = changed
        self._event_loop = event_loop

    def all(self) -> list[RunningHandler]:
        """Return the handlers that run now."""
        with self._lock:
            return list(self._running.values())

    @property
    def stuck(self) -> int:
        """The number of handlers that can only be ended together with this process."""
        with self._lock:
            return sum(one.stuck for one in self._running.values())

    def add(self, claim: Claim, runner: Runner) -> RunningHandler:
        """Add a handler that starts now."""
        declared = registry.find(claim.job_type)
        seconds = declared.timeout_seconds if declared else float("inf")
        now = time.monotonic()
        one = RunningHandler(claim, runner, now, now + seconds, now + PROCESSING_AFTER_SECONDS)
        with self._lock:
            self._running[claim.lease_token] = one
        return one

    def remove(self, one: RunningHandler) -> None:
        """Remove a handler that ended."""
        with self._lock:
            self._running.pop(one.claim.lease_token, None)

    def cancel(self, job_ids: Collection[UUID]) -> None:
        """Ask the handlers of these canceled jobs to stop, once."""
        with self._lock:
            for one in self._running.values():
                if one.claim.job_id in job_ids and not one.canceled:
                    one.canceled = True
                    one.runner.stop(StopReason.CANCEL)

    def stop_all(self) -> None:
        """Tell every handler that the worker has lost its job."""
        with self._lock:
            for one in self._running.values():
                one.runner.stop(StopReason.LEASE_LOST)

    def interrupt_overdue(self) -> list[RunningHandler]:
        """Interrupt handlers past their deadline; return those that have newly proved stuck."""
        now = time.monotonic()
        blocking = self._event_loop.blocking_task()
        with self._lock:
            watched = [one for one in self._running.values() if not one.stuck]
            for one in watched:
                if now >= one.deadline and not one.interrupted:
                    one.interrupted = True
                    one.runner.stop(StopReason.TIMEOUT)
                elif one.interrupted and now >= one.deadline + INTERRUPT_SECONDS:
                    one.stuck = not one.runner.kill()
                if blocking is not None and isinstance(one.runner, EventLoopRunner):
                    # All handlers on the loop are stuck; only the one that blocks it is at fault.
                    one.stuck = True
                    if one.runner.owns(blocking):
                        one.interrupted = True
                        one.error = BLOCKED
            stuck = [one for one in watched if one.stuck]
            if stuck:
                self._changed.notify_all()
            return [one for one in stuck if one.interrupted]
