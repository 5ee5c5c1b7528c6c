"""The handlers' threads.

Claims wait in one line that all threads share. A thread takes a chunk: one job where jobs are slow,
up to fifty where they take microseconds, so that short jobs do not pay for their hand-over one by
one. Before a chunk starts, its ids are written to the worker's row.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from jobs import registry
from jobs.context import Signals
from jobs.engine.claim import Claim
from jobs.engine.lease import note_running
from jobs.engine.settle import Settlement
from jobs.errors import JobTimeout
from jobs.executor import execute, timed_out
from jobs.outcomes import Outcome, Released
from jobs.worker.completer import Completer
from jobs.worker.database import AWAY, Outage, refresh_connection
from jobs.worker.state import WorkerState

LARGEST_CHUNK = 50
# A chunk should take about this long; jobs slower than that are handed over one by one.
CHUNK_SECONDS = 0.01
# Jobs slower than this are not claimed ahead: they would wait here while another worker is idle.
PREFETCH_BELOW_SECONDS = 0.05
SMOOTHING = 0.2
# A handler that still runs this long after JobTimeout was raised in it can only be ended with its
# process.
INTERRUPT_SECONDS = 10.0


@dataclass
class Running:
    """A started handler; times are of the monotonic clock."""

    claim: Claim
    since: float
    deadline: float
    thread_id: int
    signals: Signals
    marked: bool = False
    interrupted: bool = False


class Pool:
    """Runs claims on a fixed number of threads."""

    def __init__(self, state: WorkerState, size: int) -> None:
        self._state = state
        self._size = size
        self._line: deque[Claim] = deque()
        self._running: dict[UUID, Running] = {}
        # Started and not yet settled: what the worker's row names.
        self._started: dict[UUID, Claim] = {}
        self._busy = 0
        self._abandoned = False
        self._average_seconds: float | None = None
        self._changed = threading.Condition()
        self._noting = threading.Lock()
        self._completer: Completer | None = None

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
            return max(target - len(self._line), 0)

    def put(self, claims: Sequence[Claim]) -> None:
        """Add claims to the line."""
        with self._changed:
            self._line.extend(claims)
            self._changed.notify_all()

    def take_back(self) -> list[Claim]:
        """Remove and return the claims whose handlers were not started."""
        with self._changed:
            waiting = list(self._line)
            self._line.clear()
            self._changed.notify_all()
            return waiting

    def known_tokens(self) -> set[int]:
        """Return the lease tokens of all claims that wait, run, or are not yet settled."""
        with self._changed:
            return {claim.lease_token for claim in (*self._line, *self._started.values())}

    def running(self) -> list[Running]:
        """Return the handlers that run now."""
        with self._changed:
            return list(self._running.values())

    def abandon(self) -> list[Claim]:
        """Start nothing more; return the started claims that are not settled."""
        with self._changed:
            self._abandoned = True
            return list(self._started.values())

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
        """Wait until nothing runs; False when `timeout` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._line and not self._busy, timeout)

    def forget(self, claims: Sequence[Claim]) -> None:
        """Drop settled jobs from the list of started ones."""
        with self._changed:
            for claim in claims:
                held = self._started.get(claim.job_id)
                if held is not None and held.lease_token == claim.lease_token:
                    del self._started[claim.job_id]

    def _chunk_size(self) -> int:
        if self._average_seconds is None:
            return 1
        return max(1, min(LARGEST_CHUNK, int(CHUNK_SECONDS / max(self._average_seconds, 1e-6))))

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.is_set():
            chunk = self._take_chunk()
            if chunk:
                self._run_chunk(chunk, outage)
        connection.close()

    def _take_chunk(self) -> list[Claim]:
        with self._changed:
            if not self._line:
                self._changed.wait(1.0)
            size = min(self._chunk_size(), -(-len(self._line) // self._size))
            chunk = [self._line.popleft() for _ in range(min(size, len(self._line)))]
            if chunk:
                self._busy += 1
                self._started.update((claim.job_id, claim) for claim in chunk)
            return chunk

    def _run_chunk(self, chunk: list[Claim], outage: Outage) -> None:
        try:
            refresh_connection()
            if self._note(chunk, outage):
                for claim in chunk:
                    self._run_one(claim)
            else:
                self._give_back(chunk)
        finally:
            refresh_connection()
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _note(self, chunk: list[Claim], outage: Outage) -> bool:
        """Write the started jobs to the worker's row; False when the lease is lost.

        One thread writes for all that came since: whoever holds the lock writes the whole list.
        """
        while not self._state.halt.is_set():
            if not all(self._state.holds(claim) for claim in chunk):
                return False
            try:
                with self._noting:
                    with self._changed:
                        started = list(self._started)
                    noted = note_running(self._state.worker_id, started)
                outage.over()
            except AWAY as error:
                outage.failed(error)
            else:
                return noted
        return False

    def _give_back(self, claims: Sequence[Claim]) -> None:
        """Release claims of a lease that may be over, unless they were rescued already."""
        self._submit([Settlement(claim, Released("lease lost"), None) for claim in claims])

    def _submit(self, settlements: Sequence[Settlement]) -> None:
        if self._completer is None:
            raise RuntimeError("the pool was not started")
        self._completer.submit(settlements)

    def _run_one(self, claim: Claim) -> None:
        if self._abandoned:
            return
        lease = self._state.lease
        if claim.worker_id != lease.worker_id or not lease.trusted:
            self._give_back([claim])
            return
        begun = time.monotonic()
        signals = Signals(lease_lost=lease.lost)
        outcome: Outcome | None = None
        try:
            with self._changed:
                self._running[claim.job_id] = self._entry(claim, begun, signals)
            outcome = execute(claim, rng=self._state.rng, signals=signals)
            self._end(claim)
        except JobTimeout:
            # It came between the handler's end and ours.
            self._end(claim)
        if outcome is None:
            outcome = timed_out(claim, rng=self._state.rng)
        ran = time.monotonic() - begun
        self._learn(ran)
        self._submit([Settlement(claim, outcome, None if isinstance(outcome, Released) else ran)])

    def _entry(self, claim: Claim, begun: float, signals: Signals) -> Running:
        declared = registry.find(claim.job_type)
        seconds = declared.timeout_seconds if declared else float("inf")
        return Running(claim, begun, begun + seconds, threading.get_ident(), signals)

    def _end(self, claim: Claim) -> None:
        with self._changed:
            self._running.pop(claim.job_id, None)

    def interrupt_overdue(self) -> list[Running]:
        """Raise JobTimeout in handlers past their deadline; return those that ignore it."""
        now = time.monotonic()
        with self._changed:
            for one in self._running.values():
                if now >= one.deadline and not one.interrupted:
                    one.interrupted = True
                    _raise_in_thread(one.thread_id)
            return [
                one
                for one in self._running.values()
                if one.interrupted and now >= one.deadline + INTERRUPT_SECONDS
            ]

    def _learn(self, ran: float) -> None:
        with self._changed:
            known = self._average_seconds
            self._average_seconds = ran if known is None else known + SMOOTHING * (ran - known)


def _raise_in_thread(thread_id: int) -> None:
    """Raise JobTimeout in a thread, at its next step of Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), ctypes.py_object(JobTimeout)
    )
