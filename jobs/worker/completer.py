"""Writes outcomes in batches, from a thread of its own.

It writes at once when idle; while a write is under way the next batch gathers by itself. Where many
came at once, it waits a moment for more: a write of hundreds costs little more than one of a few.
It does not where somebody may wait for what one of them held. A full buffer blocks the handlers' threads: the database sets the pace. Of several outcomes of one
claim the first counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from django.db import DatabaseError, connection

from jobs.engine.admission import admit
from jobs.engine.claim import Claim
from jobs.engine.outcomes import Settlement, SettleReport
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.settle import settle
from jobs.engine.wakeup import wake
from jobs.execution.events import Event, emit
from jobs.execution.telemetry import SETTLE_SECONDS
from jobs.worker.database import AWAY, Outage, refresh_connection
from jobs.worker.event_publisher import Teller
from jobs.worker.state import WorkerState

CAPACITY = 1000
# Many, and how long to wait for how many more.
MANY = 20
ENOUGH = 500
GATHER_SECONDS = 0.1


class Completer:
    """Takes settlements from the handlers' threads and makes them durable."""

    def __init__(self, state: WorkerState, settled: Callable[[Sequence[Claim]], None]) -> None:
        self._state = state
        self._settled = settled
        self._teller = Teller(state)
        # By lease token, of which every claim has its own.
        self._buffer: dict[int, Settlement] = {}
        self._in_flight = 0
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # How many outcomes the thread waits for; 0 while it is writing.
        self._awaited = 0
        self._urgent = False

    def start(self) -> None:
        """Start the threads."""
        self._state.start_thread("completer", self._loop)
        self._teller.start()

    def submit(self, settlements: Sequence[Settlement]) -> None:
        """Hand over outcomes; blocks while the buffer is full."""
        with self._lock:
            while len(self._buffer) >= CAPACITY:
                self._changed.wait()
            for one in settlements:
                self._buffer.setdefault(one.claim.lease_token, one)
                self._urgent |= one.claim.lock_key is not None or one.claim.admitted
            if self._awaited and self._has(self._awaited):
                self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """Whether everything handed over is written."""
        with self._lock:
            return not self._buffer and not self._in_flight

    def drain(self, timeout: float) -> bool:
        """Wait until everything is written and told; False: `timeout` seconds were not enough."""
        deadline = time.monotonic() + timeout
        with self._lock:
            if not self._changed.wait_for(
                lambda: not self._buffer and not self._in_flight, timeout
            ):
                return False
        return self._teller.drain(max(deadline - time.monotonic(), 0.0))

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while True:
            batch = self._gather()
            if not batch:
                break
            self._write(batch, outage)
            with self._lock:
                self._in_flight = 0
                self._changed.notify_all()
        self._teller.end()
        connection.close()

    def _gather(self) -> list[Settlement]:
        """Wait for outcomes and take them; none at the worker's end."""
        with self._lock:
            while not self._buffer and not self._state.halt.is_set():
                self._await(1, 1.0)
            if len(self._buffer) >= MANY:
                self._await(ENOUGH, GATHER_SECONDS)
            batch, self._buffer = list(self._buffer.values()), {}
            self._urgent = False
            self._in_flight = len(batch)
            self._changed.notify_all()
            return batch

    def _await(self, number: int, timeout: float) -> None:
        self._awaited = number
        self._changed.wait_for(lambda: self._has(number), timeout)
        self._awaited = 0

    def _has(self, number: int) -> bool:
        return self._urgent or len(self._buffer) >= number

    def _write(self, batch: list[Settlement], outage: Outage) -> None:
        """Write until it is written: an outcome is never dropped for an outage."""
        report: SettleReport | None = None
        while report is None:
            try:
                refresh_connection()
                with SETTLE_SECONDS.time():
                    report = settle(batch)
                outage.over()
            except AWAY as error:
                if self._state.halt.is_set():
                    return
                outage.failed(error)
        self._settled([one.claim for one in batch])
        self._hand_on(report.released_capacity)
        self._teller.tell(batch, report)

    def _hand_on(self, released_capacity: ReleasedCapacity) -> None:
        """Let those run that waited for what these jobs held, before anything is told."""
        try:
            if admit(released_capacity):
                wake(())
        except DatabaseError as error:
            # The sweep admits what this could not; polling finds it.
            emit(Event.MAINTENANCE_FAILED, task="admit", error_class=type(error).__name__)
