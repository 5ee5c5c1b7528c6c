"""The chores any worker does for all: admit, rescue, expire. Bounded batches, each on its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import DatabaseError, connection

from jobs.conf import lease_seconds
from jobs.engine.admit import admit, free_orphan_slots, sweep
from jobs.engine.expire import expire
from jobs.engine.rescue import RescueReport, rescue, rescue_orphans
from jobs.engine.wakeup import wake
from jobs.events import Event, emit
from jobs.worker.database import AWAY, Outage, refresh_connection
from jobs.worker.state import WorkerState

SWEEP_SECONDS = 0.25
EXPIRE_SECONDS = 1.0


@dataclass
class Chore:
    """Something to do every so often."""

    name: str
    every_seconds: float
    do: Callable[[], None]
    next_at: float = 0.0


class Maintenance:
    """Does the chores, from a thread of its own or all at once."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        rescue_every = min(max(lease_seconds() / 6, 0.2), 5.0)
        self._chores = [
            Chore("admit", SWEEP_SECONDS, self._admit),
            Chore("expire", EXPIRE_SECONDS, self._expire),
            Chore("rescue", rescue_every, self._rescue),
            Chore("rescue_orphans", lease_seconds(), self._rescue_orphans),
            Chore("free_orphan_slots", lease_seconds(), self._free_orphan_slots),
        ]
        # After an outage every lease looks over: the living get one whole lease to report first.
        self._no_rescue_before = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._state.start_thread("maintenance", self._loop)

    def run_once(self) -> None:
        """Do every chore now.

        Raises:
            DatabaseError: one of them failed.
        """
        for chore in self._chores:
            chore.do()

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.wait(SWEEP_SECONDS * self._state.rng.uniform(0.8, 1.2)):
            for chore in self._chores:
                if time.monotonic() >= chore.next_at:
                    self._attempt(chore, outage)
        connection.close()

    def _attempt(self, chore: Chore, outage: Outage) -> None:
        try:
            refresh_connection()
            chore.do()
            outage.over()
        except AWAY as error:
            outage.failed(error)
            self._no_rescue_before = time.monotonic() + lease_seconds()
        except DatabaseError as error:
            emit(Event.MAINTENANCE_FAILED, task=chore.name, error_class=type(error).__name__)
        chore.next_at = time.monotonic() + chore.every_seconds * self._state.rng.uniform(0.8, 1.2)

    def _admit(self) -> None:
        if sweep():
            wake(())

    def _expire(self) -> None:
        while expire():
            pass

    def _rescue(self) -> None:
        if time.monotonic() >= self._no_rescue_before:
            self._report(rescue(self._state.rng))

    def _rescue_orphans(self) -> None:
        if time.monotonic() >= self._no_rescue_before:
            self._report(rescue_orphans(self._state.rng))

    def _free_orphan_slots(self) -> None:
        free_orphan_slots()

    def _report(self, report: RescueReport) -> None:
        if report.workers or report.rescued or report.buried:
            emit(
                Event.JOBS_RESCUED,
                workers=report.workers,
                rescued=report.rescued,
                dead_lettered=report.buried,
            )
            admit(report.freed_locks)
            wake(())
