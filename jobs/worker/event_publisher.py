"""Tells how attempts ended, from a thread of its own: meanwhile the next batch is written."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

from django.db import connection

from jobs.engine.outcomes import Settlement, SettleReport
from jobs.execution.events import emit_settled
from jobs.worker.database import refresh_connection
from jobs.worker.state import WorkerState

# Who writes waits when this many batches are written and not told.
MOST_BATCHES = 4


class Teller:
    """Writes the lines of settled batches and counts them, in the order they were settled."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._batches: SimpleQueue[tuple[Sequence[Settlement], SettleReport] | None] = SimpleQueue()
        self._untold = 0
        self._changed = threading.Condition(threading.Lock())

    def start(self) -> None:
        """Start the thread."""
        self._state.start_thread("teller", self._loop)

    def tell(self, batch: Sequence[Settlement], report: SettleReport) -> None:
        """Tell of this batch soon; waits while many are not told yet."""
        with self._changed:
            while self._untold >= MOST_BATCHES and not self._state.broken.is_set():
                self._changed.wait(1.0)
            self._untold += 1
        self._batches.put((batch, report))

    def end(self) -> None:
        """Let the thread end when all is told."""
        self._batches.put(None)

    def drain(self, timeout: float) -> bool:
        """Wait until all is told; False when `timeout` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._untold, timeout)

    def _loop(self) -> None:
        while (batch := self._batches.get()) is not None:
            refresh_connection()
            emit_settled(*batch)
            with self._changed:
                self._untold -= 1
                self._changed.notify_all()
        connection.close()
