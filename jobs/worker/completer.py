"""Writes outcomes in batches, from a thread of its own.

It writes at once when idle; while a write is under way the next batch gathers by itself. A full
buffer blocks the handlers' threads: the database sets the pace. Of several outcomes of one claim
the first counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from django.db import DatabaseError, connection

from jobs.engine.admit import admit
from jobs.engine.claim import Claim
from jobs.engine.settle import Settlement, SettleReport, settle
from jobs.engine.wakeup import wake
from jobs.events import Event, emit, emit_attempts
from jobs.worker.database import AWAY, Outage, refresh_connection
from jobs.worker.state import WorkerState

CAPACITY = 1000


class Completer:
    """Takes settlements from the handlers' threads and makes them durable."""

    def __init__(self, state: WorkerState, settled: Callable[[Sequence[Claim]], None]) -> None:
        self._state = state
        self._settled = settled
        # By lease token, of which every claim has its own.
        self._buffer: dict[int, Settlement] = {}
        self._in_flight = 0
        self._changed = threading.Condition()

    def start(self) -> None:
        """Start the thread."""
        self._state.start_thread("completer", self._loop)

    def submit(self, settlements: Sequence[Settlement]) -> None:
        """Hand over outcomes; blocks while the buffer is full."""
        with self._changed:
            while len(self._buffer) >= CAPACITY:
                self._changed.wait()
            for one in settlements:
                self._buffer.setdefault(one.claim.lease_token, one)
            self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """Whether everything handed over is written."""
        with self._changed:
            return not self._buffer and not self._in_flight

    def drain(self, timeout: float) -> bool:
        """Wait until everything is written; False when `timeout` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._buffer and not self._in_flight, timeout)

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while True:
            with self._changed:
                while not self._buffer and not self._state.halt.is_set():
                    self._changed.wait(1.0)
                if not self._buffer:
                    break
                batch, self._buffer = list(self._buffer.values()), {}
                self._in_flight = len(batch)
                self._changed.notify_all()
            self._write(batch, outage)
            with self._changed:
                self._in_flight = 0
                self._changed.notify_all()
        connection.close()

    def _write(self, batch: list[Settlement], outage: Outage) -> None:
        """Write until it is written: an outcome is never dropped for an outage."""
        report: SettleReport | None = None
        while report is None:
            try:
                refresh_connection()
                report = settle(batch)
                outage.over()
            except AWAY as error:
                if self._state.halt.is_set():
                    return
                outage.failed(error)
        self._settled([one.claim for one in batch])
        emit_attempts(batch, report)
        try:
            if admit(report.freed):
                wake(())
        except DatabaseError as error:
            # The sweep admits what this could not; polling finds it.
            emit(Event.MAINTENANCE_FAILED, task="admit", error_class=type(error).__name__)
