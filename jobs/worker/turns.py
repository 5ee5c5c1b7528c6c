"""Turns at the interpreter, between the thread that runs short jobs and the worker's own threads.

A handler that writes to a file releases the interpreter at each write. A thread that waits for the
interpreter is woken each time, mostly in vain, because the handler takes it back first: that cost a
third of the processor time of a short job. So the worker's own threads work, and read the
database's answers, between two batches.
"""

from __future__ import annotations

import select
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import psycopg
from django.db import connection
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

T = TypeVar("T")

# A thread that has waited this long takes the turn, because a handler of a batch may be slow.
LONGEST_TURN_SECONDS = 0.02
EVENTS = {
    Wait.R: select.POLLIN,
    Wait.W: select.POLLOUT,
    Wait.RW: select.POLLIN | select.POLLOUT,
}


class Turns:
    """Lets one thread at a time have its turn, in the order in which they ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The thread whose turn it is, if any.
        self._holder: int | None = None
        # The thread that runs a batch.
        self._runs_batch: int | None = None
        self._waiting: deque[tuple[int, threading.Event]] = deque()
        # The threads that wait for their turn before they read the database's answers.
        self._own: set[int] = set()

    @property
    def in_batch(self) -> bool:
        """Whether a batch has the turn."""
        holder = self._holder
        return holder is not None and holder == self._runs_batch

    @contextmanager
    def running_batch(self) -> Iterator[None]:
        """Run a batch of short jobs in the block, which is one turn."""
        self._take()
        self._runs_batch = threading.get_ident()
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Do the worker's own work in the block; the turn ends while the database is awaited."""
        thread = threading.get_ident()
        self._read_in_turn()
        self._own.add(thread)
        self._take()
        try:
            yield
        finally:
            self._own.discard(thread)
            self._give()

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Let others have their turns while the block waits for them."""
        had_turn = self._give()
        try:
            yield
        finally:
            if had_turn:
                self._take()

    def _take(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            if self._holder is None:
                self._holder = thread
                return
            called = threading.Event()
            self._waiting.append((thread, called))
        if called.wait(LONGEST_TURN_SECONDS):
            return
        with self._lock:
            # The holder has had its turn for too long. This thread may no longer be in the queue:
            # it was given the turn, but another thread that had waited too long took it.
            with suppress(ValueError):
                self._waiting.remove((thread, called))
            self._holder = thread

    def _give(self) -> bool:
        """End this thread's turn; return False if it had ended already."""
        with self._lock:
            if self._holder != threading.get_ident():
                return False
            self._holder = None
            if self._waiting:
                self._holder, called = self._waiting.popleft()
                called.set()
            return True

    def _read_in_turn(self) -> None:
        """Have the thread's connection wait for the database as `_wait` does."""
        raw = connection.connection
        if isinstance(raw, psycopg.Connection) and "wait" not in vars(raw):
            raw.wait = partial(self._wait, raw.pgconn)  # type: ignore[method-assign]  # there is no setting

    def _wait(
        self,
        client: PGconn,
        generator: PQGen[T],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> T:
        """Run a generator of psycopg as its `Connection.wait` does."""
        if timeout is not None:
            return waiting.wait(generator, client.socket, interval=interval, timeout=timeout)
        # Read once, because a connection that is lost has no socket any more.
        socket, poll = client.socket, select.poll()
        own = threading.get_ident() in self._own
        try:
            wanted = next(generator)
            while True:
                poll.register(socket, EVENTS[wanted])
                if own and wanted == Wait.R:
                    events = self._poll_in_turn(poll, interval)
                else:
                    events = poll.poll(interval * 1000)
                wanted = generator.send(_ready(events))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _poll_in_turn(self, poll: select.poll, interval: float) -> list[tuple[int, int]]:
        self._give()
        while True:
            self._take()
            if events := poll.poll(0):
                return events
            self._give()
            if not self.in_batch:
                poll.poll(interval * 1000)


def _ready(events: list[tuple[int, int]]) -> Ready:
    """Return what a connection is ready for; on an error everything, so that psycopg finds it."""
    if not events:
        return Ready.NONE
    ((_, event),) = events
    reads = Ready.R if event & ~select.POLLOUT else Ready.NONE
    writes = Ready.W if event & ~select.POLLIN else Ready.NONE
    return Ready(reads | writes)
