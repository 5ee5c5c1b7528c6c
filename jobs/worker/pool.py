"""The handlers' threads.

Claims wait in one line that all threads share. A thread takes a chunk: one job where jobs are slow,
up to fifty where they take microseconds, so that short jobs do not pay for their hand-over one by
one. Before a chunk starts, its ids are written to the worker's row. A suspect is a chunk of its
own and runs in a process of its own; it leaves the line when that process is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from django.db import connection

from jobs import registry
from jobs.context import Signals
from jobs.engine.claim import Claim
from jobs.engine.settle import Settlement
from jobs.events import Event, emit
from jobs.outcomes import Released
from jobs.worker.attempts import Attempt, OnThread, Stop
from jobs.worker.completer import Completer
from jobs.worker.database import Outage, refresh_connection
from jobs.worker.eventloop import EventLoop, OnLoop
from jobs.worker.isolation import InProcess, IsolatedProcess, Isolation, ProcessDied
from jobs.worker.line import Line
from jobs.worker.running import RunningHandlers
from jobs.worker.started import Started
from jobs.worker.state import WorkerState

LARGEST_CHUNK = 50
# A chunk should take about this long; jobs slower than that are handed over one by one.
CHUNK_SECONDS = 0.01
# Jobs slower than this are not claimed ahead: they would wait here while another worker is idle.
PREFETCH_BELOW_SECONDS = 0.05
SMOOTHING = 0.2
# The death of one worker makes suspects of all that ran in it: they may neither fill the machine
# with processes nor take every thread from the others.
MOST_PROCESSES = 4
NO_PROCESS_DELAY_SECONDS = 10.0


class Pool:
    """Runs claims on a fixed number of threads."""

    def __init__(self, state: WorkerState, size: int) -> None:
        self._state = state
        self._size = size
        self._most_alone = min(MOST_PROCESSES, max(size - 1, 1))
        self._line = Line()
        self._started = Started(state)
        self._event_loop = EventLoop(state.start_thread)
        self._isolation = Isolation()
        self._busy = 0
        # Threads that run a suspect, and those among them that wait for its process.
        self._alone = 0
        self._preparing = 0
        self._abandoned = False
        self._average_seconds: float | None = None
        self._changed = threading.Condition()
        self._completer: Completer | None = None
        self.running = RunningHandlers(self._changed, self._event_loop)

    def start(self, completer: Completer) -> None:
        """Start the threads; their outcomes go to `completer`."""
        self._completer = completer
        for number in range(self._size):
            self._state.start_thread(f"handler-{number}", self._loop)

    def wanted(self) -> int:
        """Return how many more jobs to claim now."""
        with self._changed:
            average = self._average_seconds
            if average is None or average > PREFETCH_BELOW_SECONDS:
                target = self._size - self._busy
            else:
                target = self._size * self._chunk_size() * 2
            # Suspects beyond those whose turn it is wait long: they keep no room from the others.
            next_alone = min(self._line.suspects - self._preparing, self._most_alone - self._alone)
            return max(target - self._line.ordinary - next_alone, 0)

    def put(self, claims: Sequence[Claim]) -> None:
        """Add claims to the line."""
        with self._changed:
            self._line.extend(claims)
            self._changed.notify_all()

    def take_back(self) -> list[Claim]:
        """Remove and return the claims whose handlers were not started."""
        with self._changed:
            waiting = self._line.clear()
            self._changed.notify_all()
            return waiting

    def known_tokens(self) -> set[int]:
        """Return the lease tokens of all claims that wait, run, or are not yet settled."""
        with self._changed:
            return {claim.lease_token for claim in (*self._line, *self._started.claims())}

    def abandon(self) -> list[Claim]:
        """Start nothing more, stop what runs; return the started claims that are not settled."""
        with self._changed:
            self._abandoned = True
        self.running.disown()
        return self._started.claims()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        with self._changed:
            return not self._line and not self._busy

    def wait_for_room(self, timeout: float) -> None:
        """Wait until a thread is free, or `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._line) < self._size or not self._busy, timeout)
            if self._busy >= self._size and not self._state.stopping.is_set():
                self._changed.wait(timeout)

    def wait_until_idle(self, timeout: float) -> bool:
        """Wait until nothing runs; False when `timeout` seconds were not enough.

        Nobody waits for handlers that are stuck: False as soon as only they are left.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: not self._line and self._busy <= self.running.stuck, timeout
            )
            return not self._line and not self._busy

    def forget(self, claims: Sequence[Claim]) -> None:
        """Drop settled jobs from the list of started ones."""
        self._started.forget(claims)

    def _chunk_size(self) -> int:
        if self._average_seconds is None:
            return 1
        return max(1, min(LARGEST_CHUNK, int(CHUNK_SECONDS / max(self._average_seconds, 1e-6))))

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.is_set():
            self._isolation.end_idle()
            if self._may_run_suspect():
                self._occupied(lambda: self._run_suspect(outage))
            elif chunk := self._take_chunk():
                self._occupied(lambda: self._run_chunk(chunk, outage))
        self._event_loop.stop()
        self._isolation.end_idle(0)
        connection.close()

    def _occupied(self, work: Callable[[], None]) -> None:
        try:
            refresh_connection()
            work()
        finally:
            refresh_connection()
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _take_chunk(self) -> list[Claim]:
        with self._changed:
            if not self._line.ordinary:
                self._changed.wait(1.0)
            chunk = self._line.take(min(self._chunk_size(), -(-self._line.ordinary // self._size)))
            if chunk:
                self._busy += 1
                self._started.add(chunk)
            return chunk

    def _may_run_suspect(self) -> bool:
        """Take the turn to run a suspect, if one waits that nobody prepares for."""
        with self._changed:
            if self._alone >= self._most_alone or self._preparing >= self._line.suspects:
                return False
            self._alone += 1
            self._preparing += 1
            self._busy += 1
            return True

    def _run_chunk(self, chunk: list[Claim], outage: Outage) -> None:
        if not self._started.note(chunk, outage):
            self._give_back(chunk)
            return
        for claim in chunk:
            self._run_one(claim)

    def _run_suspect(self, outage: Outage) -> None:
        try:
            with self._isolation.process() as process:
                claim = self._take_suspect()
                if claim is not None and self._started.note([claim], outage):
                    self._run_one(claim, process)
                elif claim is not None:
                    self._give_back([claim])
        except ProcessDied as death:
            claim = self._take_suspect()
            emit(Event.ISOLATION_FAILED, cause=str(death))
            if claim is not None:
                reason = Released("its process did not start", NO_PROCESS_DELAY_SECONDS)
                self._submit([Settlement(claim, reason, None)])
        finally:
            with self._changed:
                self._alone -= 1

    def _take_suspect(self) -> Claim | None:
        """Take a suspect out of the line, if it was not taken back meanwhile."""
        with self._changed:
            self._preparing -= 1
            claim = self._line.take_suspect()
            if claim is not None:
                self._started.add([claim])
            return claim

    def _give_back(self, claims: Sequence[Claim]) -> None:
        """Release claims of a lease that may be over, unless they were rescued already."""
        self._submit([Settlement(claim, Released("lease lost"), None) for claim in claims])

    def _submit(self, settlements: Sequence[Settlement]) -> None:
        if self._completer is None:
            raise RuntimeError("the pool was not started")
        self._completer.submit(settlements)

    def _run_one(self, claim: Claim, process: IsolatedProcess | None = None) -> None:
        if self._abandoned:
            return
        lease = self._state.lease
        if claim.worker_id != lease.worker_id or not lease.trusted:
            self._give_back([claim])
            return
        attempt = self._attempt(claim, Signals(lease_lost=lease.lost), process)
        running = self.running.add(claim, attempt)
        if lease.lost.is_set() or self._abandoned:
            attempt.stop(Stop.LEASE_LOST)
        try:
            outcome = attempt.run()
        finally:
            self.running.remove(running)
        ran = time.monotonic() - running.since
        if process is None:
            self._learn(ran)
        self._submit([Settlement(claim, outcome, None if isinstance(outcome, Released) else ran)])

    def _attempt(self, claim: Claim, signals: Signals, process: IsolatedProcess | None) -> Attempt:
        if process is not None:
            return InProcess(claim, process, self._state.rng)
        declared = registry.find(claim.job_type)
        if declared is not None and declared.is_async:
            return OnLoop(claim, signals, self._state.rng, self._event_loop)
        return OnThread(claim, signals, self._state.rng)

    def _learn(self, ran: float) -> None:
        with self._changed:
            known = self._average_seconds
            self._average_seconds = ran if known is None else known + SMOOTHING * (ran - known)
