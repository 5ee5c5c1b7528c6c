"""The threads that handlers run on, and the batches of claims they are given."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from queue import SimpleQueue

from django.db import connection

from jobs.engine.claim import Claim
from jobs.worker.database import refresh_connection
from jobs.worker.state import SharedState

Work = Callable[[], None]


class Batch:
    """Claims that one thread runs in order. Others may take the rest away at any moment."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = claims
        # When the current job began (monotonic); infinity before the first.
        self.job_began_at = inf
        self._left = deque(claims)

    def next(self) -> Claim | None:
        """Remove and return the next claim; None at the end."""
        self.job_began_at = time.monotonic()
        try:
            return self._left.popleft()
        except IndexError:
            return None

    def take_rest(self) -> list[Claim]:
        """Remove and return the claims that were not begun."""
        rest: list[Claim] = []
        with suppress(IndexError):
            while True:
                rest.append(self._left.popleft())
        return rest


class WorkerThread:
    """A thread, and the batch it was given."""

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self._work: SimpleQueue[Work | None] = SimpleQueue()

    def run(self, work: Work) -> None:
        """Run this on the thread next."""
        self._work.put(work)

    def end(self) -> None:
        """End the thread after what it was given."""
        self._work.put(None)

    def loop(self, on_free: Callable[[WorkerThread], None]) -> None:
        """Run work until the end; `on_free` is called after each piece."""
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
