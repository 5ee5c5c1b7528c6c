"""The threads that handlers run on, the batches they are given, and how a running one is reached."""

from __future__ import annotations

import ctypes
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from math import inf
from queue import SimpleQueue
from random import Random
from typing import TypeVar

from django.core.cache import caches
from django.db import connection

from jobs.engine.claim import Claim
from jobs.engine.outcomes import Outcome, Settlement
from jobs.errors import JobTimeout
from jobs.execution.connections import drop_open_transactions
from jobs.execution.context import Signals
from jobs.execution.executor import execute, timed_out
from jobs.models.base import pack_ids
from jobs.worker.state import SharedState, refresh_connection

T = TypeVar("T")
Work = Callable[[], None]


class Batch:
    """Claims that one thread runs in order, and the outcomes it has not handed over.

    Other threads may take either away at any moment.
    """

    def __init__(self, claims: Sequence[Claim], most: float = inf) -> None:
        # How many batches of jobs as short as these may run at the same time.
        self.most = most
        # All claims, also those that have ended.
        self.claims = claims
        self._ids: tuple[Sequence[Claim], bytes] = (), b""
        # When the current job began (monotonic); infinity before the first.
        self.job_began_at = inf
        self.outcomes: deque[Settlement] = deque()
        self._left = deque(claims)

    def next(self) -> Claim | None:
        """Remove and return the next claim; None at the end."""
        self.job_began_at = time.monotonic()
        try:
            return self._left.popleft()
        except IndexError:
            return None

    @property
    def packed_ids(self) -> bytes:
        """The ids of its claims, as the worker's row names them."""
        claims, ids = self._ids
        if claims is not self.claims:
            claims = self.claims
            ids = pack_ids(claim.job_id for claim in claims)
            self._ids = claims, ids
        return ids

    @property
    def has_rest(self) -> bool:
        """Whether claims are left that were not begun."""
        return bool(self._left)

    def take_rest(self) -> list[Claim]:
        """Remove and return the claims that were not begun."""
        rest = _empty(self._left)
        self.claims = self.claims[: len(self.claims) - len(rest)]
        return rest

    def take_outcomes(self) -> list[Settlement]:
        """Remove and return the outcomes so far."""
        return _empty(self.outcomes)


def _empty(items: deque[T]) -> list[T]:
    """Remove and return all items, each of which another thread may take first."""
    taken: list[T] = []
    with suppress(IndexError):
        while items:
            taken.append(items.popleft())
    return taken


class WorkerThread:
    """A thread, and the batch it was given."""

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self._work: SimpleQueue[Work | None] = SimpleQueue()

    def run(self, work: Work) -> None:
        """Run this on the thread next."""
        self._work.put(work)

    def end(self) -> None:
        """End the thread after the work it was given."""
        self._work.put(None)

    def loop(self, on_free: Callable[[WorkerThread], None]) -> None:
        """Run work until the end; `on_free` is called after each piece."""
        for alias in caches:
            # Otherwise each handler would make its own, in its copy of this thread's context.
            caches[alias]
        while (work := self._work.get()) is not None:
            try:
                refresh_connection(ask=True)
                work()
            finally:
                refresh_connection(ask=True)
                on_free(self)
        connection.close()


class WorkerThreads:
    """The threads of one pool. Not safe for threads by itself: the pool's lock guards it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._all = [WorkerThread() for _ in range(size)]
        # Last in, first out: few threads do the work of many short jobs.
        self._free = list(reversed(self._all))

    def start(self, state: SharedState, on_free: Callable[[WorkerThread], None]) -> None:
        """Start the threads."""
        for number, thread in enumerate(self._all):
            state.start_thread(f"handler-{number}", partial(thread.loop, on_free))

    def end(self) -> None:
        """End all threads after what they were given."""
        for thread in self._all:
            thread.end()

    @property
    def free(self) -> int:
        """The number of idle threads."""
        return len(self._free)

    @property
    def busy(self) -> int:
        """The number of threads taken and not released."""
        return self.size - len(self._free)

    @property
    def batches(self) -> list[Batch]:
        """The batches that threads work on."""
        return [thread.batch for thread in self._all if thread.batch is not None]

    def take(self, batch: Batch | None = None) -> WorkerThread:
        """Take an idle thread, for `batch`; there must be one."""
        thread = self._free.pop()
        thread.batch = batch
        return thread

    def release(self, thread: WorkerThread) -> None:
        """Return the thread to the idle ones."""
        thread.batch = None
        self._free.append(thread)


class StopReason(StrEnum):
    """Why a running handler has to stop."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    LEASE_LOST = "lease_lost"


class Runner(ABC):
    """Runs one handler; all methods but `run` may be called from any thread.

    Times are of the monotonic clock. `interrupted`: told to stop for its timeout, or because it
    blocks the event loop, as `error` then says. `stuck`: it can only be ended together with this
    process.
    """

    claim: Claim
    # Class attributes, because nearly all handlers never change them.
    canceled = False
    interrupted = False
    stuck = False
    error = ""
    processing_at: float | None = None
    started_at = 0.0
    # When it must be interrupted.
    deadline = inf
    # Whether attempts are traced or have hooks; None if nobody has found out yet.
    watched: bool | None = None

    @abstractmethod
    def run(self) -> Outcome:
        """Run the handler to its end and return the outcome."""

    @abstractmethod
    def stop(self, reason: StopReason) -> None:
        """Ask the handler to stop."""

    def kill(self) -> bool:
        """End the handler by force; return False if only the end of this process ends it."""
        return False


class ThreadRunner(Runner):
    """Runs a `def` handler on the calling thread; it stops at its next call of `ctx`."""

    # One lock for all runners, because each holds it only for a moment.
    _lock = threading.Lock()
    # The handler's thread, while JobTimeout may be raised in it.
    _thread_id: int | None = None

    def __init__(self, claim: Claim, signals: Signals, rng: Random) -> None:
        self.claim = claim
        self._signals = signals
        self._rng = rng

    def run(self) -> Outcome:
        """Run the handler on this thread."""
        outcome: Outcome | None = None
        try:
            self._thread_id = threading.get_ident()
            outcome = execute(
                self.claim, rng=self._rng, signals=self._signals, watched=self.watched
            )
            self._leave_thread()
        except JobTimeout as late:
            # JobTimeout was raised after the handler had ended.
            self._leave_thread()
            drop_open_transactions(late)
        return outcome or timed_out(self.claim, rng=self._rng)

    def stop(self, reason: StopReason) -> None:
        """Signal the handler; a timeout is also raised in its thread."""
        match reason:
            case StopReason.CANCEL:
                self._signals.cancel_requested = True
            case StopReason.LEASE_LOST:
                self._signals.lease_lost.set()
            case StopReason.TIMEOUT:
                self._signals.time_out(self._interrupt)

    def _interrupt(self) -> None:
        """Raise JobTimeout in the handler's thread, at its next step of Python code."""
        with self._lock:
            if self._thread_id is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread_id), ctypes.py_object(JobTimeout)
                )

    def _leave_thread(self) -> None:
        with self._lock:
            self._thread_id = None
