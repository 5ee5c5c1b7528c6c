"""The chores any worker does for all: admit, rescue, expire. Bounded batches, each on its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

from django.db import DatabaseError, connection

from jobs.conf import lease_seconds
from jobs.engine.admission import Sweep, admit, sweep
from jobs.engine.database_time import database_now
from jobs.engine.demotion import Demotion, demote
from jobs.engine.expire import expire
from jobs.engine.fan_in import sweep_fan_ins
from jobs.engine.locks import free_orphan_slots
from jobs.engine.pending_work import Outlook
from jobs.engine.probes import drop_idle_breakers, send_probes
from jobs.engine.rescue import RescueReport, rescue, rescue_orphans
from jobs.engine.wakeup import wake
from jobs.execution.events import Event, emit, emit_rescued
from jobs.worker.database import AWAY, Outage, refresh_connection
from jobs.worker.long_transactions import SnapshotWatch
from jobs.worker.pending_work import Lookout
from jobs.worker.rescue_guard import Patience
from jobs.worker.scheduler import NOTE_SECONDS, TICK_SECONDS, Scheduler
from jobs.worker.state import WorkerState

T = TypeVar("T")

SWEEP_SECONDS = 0.25
EXPIRE_SECONDS = 1.0
PARK_SECONDS = 1.0
PROBE_SECONDS = 1.0
# A pass that finds much goes on for this long before the other chores have their turn.
PASS_SECONDS = 0.25
FAN_IN_SECONDS = 5.0
SNAPSHOT_SECONDS = 30.0


@dataclass
class Chore:
    """Something to do every so often."""

    name: str
    every_seconds: float
    do: Callable[[], None]
    # Where the outlook says whether there is anything to do.
    needed: Callable[[Outlook], bool] | None = None
    next_at: float = 0.0

    def is_due(self, outlook: Outlook) -> bool:
        """Say whether it is time, and there is something to do."""
        due = time.monotonic() >= self.next_at
        return due and (self.needed is None or self.needed(outlook))


class Maintenance:
    """Does the chores, from a thread of its own or all at once."""

    def __init__(self, state: WorkerState, lookout: Lookout, *, schedules: bool = False) -> None:
        self._state = state
        self._lookout = lookout
        self._sweep = Sweep()
        self._demotion = Demotion()
        rescue_every = min(max(lease_seconds() / 6, 0.2), 5.0)
        self._chores = [
            Chore("admit", SWEEP_SECONDS, self._admit, attrgetter("waiting")),
            Chore("expire", EXPIRE_SECONDS, self._expire, attrgetter("expiring")),
            Chore("park", PARK_SECONDS, self._park, attrgetter("limited")),
            Chore("send_probes", PROBE_SECONDS, self._send_probes, attrgetter("broken")),
            Chore("drop_idle_breakers", lease_seconds(), drop_idle_breakers),
            Chore("rescue", rescue_every, self._rescue, attrgetter("bereaved")),
            Chore("rescue_orphans", lease_seconds(), self._rescue_orphans),
            Chore("free_orphan_slots", lease_seconds(), self._free_orphan_slots),
            Chore("fan_in", FAN_IN_SECONDS, self._sweep_fan_ins, attrgetter("joining")),
            Chore("watch_snapshots", SNAPSHOT_SECONDS, SnapshotWatch(state).look),
        ]
        if schedules:
            scheduler = Scheduler()
            self._chores += [
                Chore("store_shipped_schedules", NOTE_SECONDS, scheduler.store_shipped),
                Chore("schedule", TICK_SECONDS, scheduler.tick, attrgetter("scheduled")),
                Chore("note_unknown_schedules", NOTE_SECONDS, scheduler.note_unknown),
            ]
        self._fan_in_place: UUID | None = None
        self._patience = Patience()

    def start(self) -> None:
        """Start the thread; the database has just answered."""
        self._patience.hear()
        self._state.start_thread("maintenance", self._loop)

    def run_once(self) -> None:
        """Do every chore now, parking and the sweep all the way round.

        Raises:
            DatabaseError: one of them failed.
        """
        for chore in self._chores:
            chore.do()
        demote()
        sweep()

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.wait(SWEEP_SECONDS * self._state.rng.uniform(0.8, 1.2)):
            outlook = self._attempt("look", self._lookout.for_chores, outage)
            for chore in self._chores:
                if outlook is not None and chore.is_due(outlook):
                    self._do(chore, outage)
        connection.close()

    def _attempt(self, name: str, ask: Callable[[], T], outage: Outage) -> T | None:
        """Return what the database answers, None where it does not."""
        try:
            refresh_connection()
            answer = ask()
            self._patience.hear()
            outage.over()
        except AWAY as error:
            outage.failed(error)
            self._patience.begin()
        except DatabaseError as error:
            emit(Event.MAINTENANCE_FAILED, task=name, error_class=type(error).__name__)
        else:
            return answer
        return None

    def _do(self, chore: Chore, outage: Outage) -> None:
        self._attempt(chore.name, chore.do, outage)
        chore.next_at = time.monotonic() + chore.every_seconds * self._state.rng.uniform(0.8, 1.2)

    def _admit(self) -> None:
        until = time.monotonic() + PASS_SECONDS
        while self._sweep.step():
            wake(())
            if time.monotonic() > until:
                break

    def _park(self) -> None:
        until = time.monotonic() + PASS_SECONDS
        while self._demotion.step() and time.monotonic() < until:
            pass

    def _expire(self) -> None:
        while expire():
            pass

    def _send_probes(self) -> None:
        send_probes()

    def _rescue(self) -> None:
        asked_at = database_now()
        self._patience.hear(asked_at)
        if not self._patience.needed:
            self._report(rescue(self._state.rng, asked_at=asked_at))

    def _rescue_orphans(self) -> None:
        if not self._patience.needed:
            self._report(rescue_orphans(self._state.rng))

    def _free_orphan_slots(self) -> None:
        free_orphan_slots()

    def _sweep_fan_ins(self) -> None:
        self._fan_in_place = sweep_fan_ins(self._fan_in_place)

    def _report(self, report: RescueReport) -> None:
        if report.workers or report.rescued or report.dead_lettered:
            emit_rescued(report)
            admit(report.released_capacity)
            wake(())
