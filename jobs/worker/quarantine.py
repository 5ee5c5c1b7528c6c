"""Runs quarantined jobs, those with a death, each alone in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Released
from jobs.execution.events import Event, emit
from jobs.worker.isolation import IsolatedProcess, IsolatedProcesses, ProcessDied
from jobs.worker.prefetch import PrefetchBuffer
from jobs.worker.running import StartedClaims

# The death of one worker quarantines all jobs that ran in it: they may neither fill the machine
# with processes nor take every thread from the others.
MOST_PROCESSES = 4
NO_PROCESS_DELAY_SECONDS = 10.0


class Quarantine:
    """A quarantined claim leaves the buffer only when there is a process for it.

    Guarded by the pool's `lock`, which `run` takes itself.
    """

    def __init__(
        self, buffer: PrefetchBuffer, started: StartedClaims, lock: threading.RLock, size: int
    ) -> None:
        self._buffer = buffer
        self._started = started
        self._lock = lock
        self._processes = IsolatedProcesses()
        self._most = min(MOST_PROCESSES, max(size - 1, 1))
        # Threads in `run`, and those of them that have no process yet.
        self._running = 0
        self._preparing = 0

    @property
    def may_run(self) -> bool:
        """Whether another thread may `run` a claim."""
        return self._running < self._most and self._preparing < self._buffer.quarantined

    @property
    def next(self) -> int:
        """How many buffered claims will run as soon as there is a process."""
        return min(self._buffer.quarantined - self._preparing, self._most - self._running)

    def begin(self) -> None:
        """Note that a thread is going to `run` a claim."""
        self._running += 1
        self._preparing += 1

    def run(
        self,
        run: Callable[[Claim, IsolatedProcess], None],
        release: Callable[[Claim, Released], None],
    ) -> None:
        """Start a process, take a claim if there still is one, record and run it there.

        Where no process starts or the lease is lost, the claim is released.
        """
        try:
            with self._processes.lend() as process:
                claim = self._take()
                if claim is not None and self._started.record_before_start([claim]):
                    run(claim, process)
                elif claim is not None:
                    release(claim, Released("lease lost"))
        except ProcessDied as death:
            claim = self._take()
            emit(Event.ISOLATION_FAILED, cause=str(death))
            if claim is not None:
                release(claim, Released("its process did not start", NO_PROCESS_DELAY_SECONDS))
        finally:
            with self._lock:
                self._running -= 1

    def end_idle_processes(self) -> None:
        """End the processes that were idle for a while."""
        self._processes.end_idle()

    def end(self) -> None:
        """End all processes that run nothing."""
        self._processes.end_idle(0)

    def _take(self) -> Claim | None:
        with self._lock:
            self._preparing -= 1
            claim = self._buffer.take_quarantined()
            if claim is not None:
                # At once: every claim of this worker is always buffered or started.
                self._started.add([claim])
            return claim
