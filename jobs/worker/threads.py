"""The threads that handlers run on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from django.db import connection

from jobs.worker.database import refresh_connection
from jobs.worker.state import WorkerState

Work = Callable[[], None]


class Seat:
    """One thread, which does what it is given."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Work | None] = SimpleQueue()

    def give(self, work: Work) -> None:
        """Let the thread do this next."""
        self._work.put(work)

    def end(self) -> None:
        """Let the thread end when it has done what it was given."""
        self._work.put(None)

    def serve(self, freed: Callable[[Seat], None]) -> None:
        """Work until the end; `freed` is called after each piece of it."""
        while (work := self._work.get()) is not None:
            try:
                refresh_connection(ask=True)
                work()
            finally:
                refresh_connection(ask=True)
                freed(self)
        connection.close()


class Seats:
    """The threads of one pool. Not safe for threads by itself: the pool guards it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._all = [Seat() for _ in range(size)]
        # The last to become free is taken first: few threads do the work of many short jobs.
        self._free = list(reversed(self._all))

    def start(self, state: WorkerState, freed: Callable[[Seat], None]) -> None:
        """Start the threads."""
        for number, seat in enumerate(self._all):
            state.start_thread(f"handler-{number}", partial(seat.serve, freed))

    def end(self) -> None:
        """Let all of them end."""
        for seat in self._all:
            seat.end()

    @property
    def free(self) -> int:
        """How many have nothing to do."""
        return len(self._free)

    @property
    def busy(self) -> int:
        """How many were taken and not released."""
        return self.size - len(self._free)

    def take(self) -> Seat:
        """Take a free one; there must be one."""
        return self._free.pop()

    def release(self, seat: Seat) -> None:
        """Note that it is free again."""
        self._free.append(seat)
