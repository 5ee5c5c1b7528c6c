"""Which suspects run, each alone in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Released
from jobs.execution.events import Event, emit
from jobs.worker.isolation import IsolatedProcess, Isolation, ProcessDied
from jobs.worker.prefetch_buffer import Line

# The death of one worker makes suspects of all that ran in it: they may neither fill the machine
# with processes nor take every thread from the others.
MOST_PROCESSES = 4
NO_PROCESS_DELAY_SECONDS = 10.0


class Suspects:
    """A suspect leaves the line only when there is a process for it. Works under the pool's lock."""

    def __init__(
        self, line: Line, lock: threading.RLock, size: int, taken: Callable[[Claim], None]
    ) -> None:
        self._line = line
        # Called with each as it leaves the line: no claim is ever known to nobody.
        self._taken = taken
        self._lock = lock
        self._isolation = Isolation()
        self._most = min(MOST_PROCESSES, max(size - 1, 1))
        # Threads that run one, and those among them that wait for its process.
        self._running = 0
        self._preparing = 0

    @property
    def may_run(self) -> bool:
        """Whether one waits whose turn it is and that no thread prepares for."""
        return self._running < self._most and self._preparing < self._line.suspects

    @property
    def next(self) -> int:
        """How many of those that wait will run as soon as there is a process."""
        return min(self._line.suspects - self._preparing, self._most - self._running)

    def begin(self) -> None:
        """Note that a thread is going to `run` one."""
        self._running += 1
        self._preparing += 1

    def run(
        self,
        start: Callable[[Claim], bool],
        run: Callable[[Claim, IsolatedProcess], None],
        give_back: Callable[[Claim, Released], None],
    ) -> None:
        """Have a process, take one and run it there, if it was not taken back meanwhile.

        `start` notes it down; where it says False, or no process can be had, it is given back.
        """
        try:
            with self._isolation.process() as process:
                claim = self._take()
                if claim is not None and start(claim):
                    run(claim, process)
                elif claim is not None:
                    give_back(claim, Released("lease lost"))
        except ProcessDied as death:
            claim = self._take()
            emit(Event.ISOLATION_FAILED, cause=str(death))
            if claim is not None:
                give_back(claim, Released("its process did not start", NO_PROCESS_DELAY_SECONDS))
        finally:
            with self._lock:
                self._running -= 1

    def end_idle_processes(self) -> None:
        """End the processes that nobody used for a while."""
        self._isolation.end_idle()

    def end(self) -> None:
        """End all processes that run nothing."""
        self._isolation.end_idle(0)

    def _take(self) -> Claim | None:
        with self._lock:
            self._preparing -= 1
            claim = self._line.take_suspect()
            if claim is not None:
                self._taken(claim)
            return claim
