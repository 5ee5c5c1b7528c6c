"""Runs quarantined jobs, during which workers died, each alone in a process of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Released
from jobs.execution.events import Event, emit
from jobs.worker.isolation import IsolatedProcess, IsolatedProcesses, ProcessDied
from jobs.worker.prefetch import LONGEST_WAIT_SECONDS, PrefetchBuffer
from jobs.worker.running import StartNotes
from jobs.worker.threads import Batch

# When workers die, every job that ran in two of them is quarantined. These jobs may neither fill
# the machine with processes nor take every thread from the others.
MOST_PROCESSES = 4
NO_PROCESS_DELAY_SECONDS = 10.0


class Quarantine:
    """A quarantined claim leaves the buffer only when there is a process for it.

    Guarded by the pool's `lock`, which `run` takes itself. `on_room` is called whenever a process
    has become free.
    """

    def __init__(
        self,
        buffer: PrefetchBuffer,
        notes: StartNotes,
        lock: threading.RLock,
        size: int,
        on_room: Callable[[], None],
    ) -> None:
        self._buffer = buffer
        self._notes = notes
        self._lock = lock
        self._on_room = on_room
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
    def preparing(self) -> int:
        """How many buffered claims a process is being started for."""
        return self._preparing

    @property
    def next(self) -> int:
        """How many buffered claims will run as soon as there is a process."""
        return min(self._buffer.quarantined - self._preparing, self._most - self._running)

    @property
    def has_room(self) -> bool:
        """Whether another claim would run as soon as there is a process."""
        return self._buffer.quarantined - self._preparing < self._most - self._running

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

        If no process starts or the lease is lost, the claim is released. So is a claim that waited
        long for the start: claimed again, it finds the process ready, and obeys pauses and cancels.
        """
        try:
            with self._processes.lend() as process, self._take() as claim:
                if claim is None:
                    return
                if time.monotonic() - claim.claimed_at > LONGEST_WAIT_SECONDS:
                    release(claim, Released("the isolated process had to start first"))
                elif self._notes.record_before_start([claim]):
                    run(claim, process)
                else:
                    release(claim, Released("lease lost"))
        except ProcessDied as death:
            emit(Event.ISOLATION_FAILED, cause=str(death))
            with self._take() as claim:
                if claim is not None:
                    release(
                        claim,
                        Released("the isolated process did not start", NO_PROCESS_DELAY_SECONDS),
                    )
        finally:
            with self._lock:
                self._running -= 1
            self._on_room()

    def end_idle_processes(self) -> None:
        """End the processes that were idle for a while."""
        self._processes.end_idle()

    def end(self) -> None:
        """End all processes that run nothing."""
        self._processes.end_idle(0)

    @contextmanager
    def _take(self) -> Iterator[Claim | None]:
        """Take a claim out of the buffer, if there still is one; name it in the note meanwhile."""
        with self._lock:
            self._preparing -= 1
            claim = self._buffer.take_quarantined()
            batch = Batch([] if claim is None else [claim])
            # Under the same lock, so that every claim of this worker is always in the buffer or in
            # a batch.
            self._notes.add(batch)
        try:
            yield claim
        finally:
            self._notes.remove(batch)
