"""Writes outcomes in batches, and publishes them, each on a thread of its own.

An idle completer writes an outcome at once; during a write the next batch collects. Outcomes that
handlers committed in their own transactions only need to be published, so they wait for more. If
many outcomes came at once, the completer also waits a moment for more, because a large batch costs
little more than a small one. It does not wait if others may need what one of the jobs held, nor if
no handler runs that could bring more. A full buffer blocks the handlers' threads, so that the
database sets the pace.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue

from django.db import DatabaseError, connection

from jobs.engine.admission import admit
from jobs.engine.claim import Claim
from jobs.engine.locks import ReleasedCapacity
from jobs.engine.outcomes import Settlement, SettleReport
from jobs.engine.settle import is_completed, settle
from jobs.engine.wakeup import wake
from jobs.execution.events import Event, emit, emit_settled, measured
from jobs.execution.metrics import SETTLE_SECONDS
from jobs.worker.state import AWAY, Outage, SharedState, refresh_connection, refresh_own_connection

CAPACITY = 1000
# With `COLLECT_FROM` outcomes, wait for `COLLECT_UP_TO`, but not longer than this.
COLLECT_FROM = 20
COLLECT_UP_TO = 500
COLLECT_SECONDS = 0.1
# With this many batches unpublished, the completer waits for the publisher.
MOST_UNPUBLISHED = 4
# Outcomes of jobs that another transaction has locked: how many may wait, how often they are tried,
# and how long a stopping worker waits for them. The jobs of the others are rescued later.
MOST_LOCKED = 1000
RETRY_LOCKED_SECONDS = 0.5
LOCKED_AT_END_SECONDS = 5.0


class Completer:
    """Stores outcomes; of several outcomes of one claim the first counts."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._publisher = EventPublisher(state)
        # By lease token, which is unique to a claim.
        self._buffer: dict[int, Settlement] = {}
        self._writing: dict[int, Settlement] = {}
        # Outcomes of locked jobs, until they are stored; all are tried again at `_retry_at`.
        self._locked: dict[int, Settlement] = {}
        self._retry_at = 0.0
        self._changed = threading.Condition(threading.RLock())
        # How many outcomes the thread waits for; 0 while it writes.
        self._awaited = 0
        self._urgent = False
        # Whether the buffer has an outcome to write; those committed by handlers are not written.
        self._writes = False
        self._awaits_writes = False

    def start(self) -> None:
        """Start the threads."""
        self._state.start_thread("completer", self._loop)
        self._publisher.start()

    def submit(self, settlements: Sequence[Settlement]) -> None:
        """Add outcomes; blocks while the buffer is full."""
        if not settlements:
            return
        with self._changed:
            while len(self._buffer) >= CAPACITY or self._has_too_many_locked():
                self._changed.wait(1.0)
            for one in settlements:
                if one.claim.lease_token in self._locked:
                    continue
                self._buffer.setdefault(one.claim.lease_token, one)
                self._urgent |= one.claim.lock_key is not None or one.claim.admitted
                self._writes = self._writes or not is_completed(one.claim)
            if self._awaited and self._has(self._awaited):
                self._changed.notify_all()

    def expect_no_more(self) -> None:
        """Write the buffer at once, because no handler runs that could bring more."""
        with self._changed:
            if self._buffer:
                self._urgent = True
                if self._awaited:
                    self._changed.notify_all()

    def known_tokens(self) -> set[int]:
        """Return the lease tokens of the claims whose outcomes are not stored."""
        with self._changed:
            return {*self._buffer, *self._writing, *self._locked}

    def unsettled(self, claims: Sequence[Claim]) -> list[Claim]:
        """Return those of these claims whose outcomes are not stored."""
        with self._changed:
            buffer, writing, locked = self._buffer, self._writing, self._locked
            return [
                claim
                for claim in claims
                if (token := claim.lease_token) in writing or token in buffer or token in locked
            ]

    @property
    def idle(self) -> bool:
        """Whether every outcome is stored, except those of locked jobs."""
        with self._changed:
            return not self._buffer and not self._writing

    def drain(self, timeout: float) -> bool:
        """Wait until all is stored and published; False if `timeout` seconds were not enough."""
        deadline = time.monotonic() + timeout
        with self._changed:
            if not self._changed.wait_for(lambda: self.idle, timeout):
                return False
            at_end = min(LOCKED_AT_END_SECONDS, deadline - time.monotonic())
            unlocked = self._changed.wait_for(
                lambda: self.idle and not self._locked, max(at_end, 0.0)
            )
        return self._publisher.drain(max(deadline - time.monotonic(), 0.0)) and unlocked

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while (batch := self._next_batch()) or not self._state.halt.is_set():
            if batch:
                self._write(batch, outage)
            if self._may_retry_locked():
                self._writing = dict(self._locked)
                self._write(list(self._writing.values()), outage, again=True)
                self._retry_at = time.monotonic() + RETRY_LOCKED_SECONDS
            with self._changed:
                self._writing = {}
                self._changed.notify_all()
        self._publisher.end()
        connection.close()

    def _next_batch(self) -> list[Settlement]:
        """Wait for outcomes and take them; none at the worker's end, or if locked ones are due."""
        with self._changed:
            while not (self._buffer or self._may_retry_locked() or self._state.halt.is_set()):
                self._await(1, RETRY_LOCKED_SECONDS if self._locked else 1.0)
            if self._buffer and not self._writes:
                self._awaits_writes = True
                self._await(COLLECT_UP_TO, COLLECT_SECONDS)
                self._awaits_writes = False
            if len(self._buffer) >= COLLECT_FROM and self._writes:
                self._await(COLLECT_UP_TO, COLLECT_SECONDS)
            self._writing, self._buffer = self._buffer, {}
            self._urgent = self._writes = False
            self._changed.notify_all()
            return list(self._writing.values())

    def _await(self, number: int, timeout: float) -> None:
        self._awaited = number
        self._changed.wait_for(lambda: self._has(number), timeout)
        self._awaited = 0

    def _has(self, number: int) -> bool:
        enough = self._urgent or len(self._buffer) >= number
        return enough or (self._awaits_writes and self._writes)

    def _write(self, batch: list[Settlement], outage: Outage, *, again: bool = False) -> None:
        """Write until it succeeds: an outage never loses an outcome."""
        report: SettleReport | None = None
        while report is None:
            try:
                refresh_own_connection()
                with SETTLE_SECONDS.time(), self._state.turns.working():
                    report = settle(batch, again=again)
                outage.over()
            except AWAY as error:
                if self._state.halt.is_set():
                    return
                outage.failed(error)
        stored = self._without_locked(batch, report)
        self._admit(report.released_capacity)
        self._publisher.publish(stored, report)

    def _without_locked(
        self, batch: Sequence[Settlement], report: SettleReport
    ) -> Sequence[Settlement]:
        """Return what was settled; keep the rest, which another transaction has locked."""
        tokens = {claim.lease_token for claim in report.locked}
        if not tokens and not self._locked:
            return batch
        done = []
        with self._changed:
            for one in batch:
                if one.claim.lease_token in tokens:
                    if not self._locked:
                        self._retry_at = time.monotonic() + RETRY_LOCKED_SECONDS
                    self._locked[one.claim.lease_token] = one
                else:
                    self._locked.pop(one.claim.lease_token, None)
                    done.append(one)
        return done

    def _may_retry_locked(self) -> bool:
        return bool(self._locked) and time.monotonic() >= self._retry_at

    def _has_too_many_locked(self) -> bool:
        return len(self._locked) >= MOST_LOCKED and not self._state.stopping.is_set()

    def _admit(self, released_capacity: ReleasedCapacity) -> None:
        try:
            if admit(released_capacity):
                wake(())
        except DatabaseError as error:
            # The maintenance sweep admits them later, and polling finds them.
            emit(Event.MAINTENANCE_FAILED, task="admit", error_class=type(error).__name__)


class EventPublisher:
    """Logs, counts and publishes settled batches in order, while the next batch is written."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._batches: SimpleQueue[tuple[Sequence[Settlement], SettleReport] | None] = SimpleQueue()
        self._unpublished = 0
        self._changed = threading.Condition(threading.Lock())

    def start(self) -> None:
        """Start the thread."""
        self._state.start_thread("publisher", self._loop)

    def publish(self, batch: Sequence[Settlement], report: SettleReport) -> None:
        """Queue the batch; waits while many are queued."""
        with self._changed:
            while self._unpublished >= MOST_UNPUBLISHED and not self._state.broken.is_set():
                self._changed.wait(1.0)
            self._unpublished += 1
        self._batches.put((batch, report))

    def end(self) -> None:
        """End the thread when all is published."""
        self._batches.put(None)

    def drain(self, timeout: float) -> bool:
        """Wait until all is published; False if `timeout` seconds were not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unpublished, timeout)

    def _loop(self) -> None:
        while (batch := self._batches.get()) is not None:
            refresh_connection()
            with self._state.turns.working():
                self._state.rollups.add(measured(emit_settled(*batch)))
            with self._changed:
                self._unpublished -= 1
                self._changed.notify_all()
        connection.close()
