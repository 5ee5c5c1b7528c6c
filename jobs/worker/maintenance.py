"""The maintenance tasks, which any worker runs for the whole queue, in bounded batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TypeVar
from uuid import UUID

from django.db import DatabaseError, connection

from jobs.conf import lease_seconds
from jobs.engine.admission import Sweep, admit, sweep
from jobs.engine.batches import sweep_batches
from jobs.engine.breakers import drop_idle_breakers, send_probes
from jobs.engine.clock import database_now
from jobs.engine.counters import FOLD_BATCH, fold_counters
from jobs.engine.demotion import Demotion, demote
from jobs.engine.fan_in import sweep_fan_ins
from jobs.engine.locks import free_orphan_slots
from jobs.engine.pending_work import PendingWork, PendingWorkReader
from jobs.engine.prune import expire
from jobs.engine.rescue import RescueReport, awaits_rescue, rescue, rescue_orphans
from jobs.engine.schedule_runs import follow_runs
from jobs.engine.table_statistics import TableWatch
from jobs.engine.token_bucket import IDLE_SECONDS, drop_idle_buckets, note_starts
from jobs.engine.transactions import LockTimeout
from jobs.engine.wakeup import wake
from jobs.execution.events import Event, emit, emit_rescued
from jobs.models import Worker
from jobs.queries.doctor.snapshots import holders, is_pinned
from jobs.worker.scheduler import NOTE_SECONDS, TICK_SECONDS, Scheduler
from jobs.worker.state import AWAY, Outage, SharedState, refresh_own_connection

T = TypeVar("T")

SWEEP_SECONDS = 0.25
EXPIRE_SECONDS = 1.0
DEMOTE_SECONDS = 1.0
PROBE_SECONDS = 1.0
ANALYZE_SECONDS = 10.0
FAN_IN_SECONDS = 5.0
FOLD_SECONDS = 5.0
RUNS_SECONDS = 5.0
ROLLUP_SECONDS = 5.0
SNAPSHOT_SECONDS = 30.0
# A task with much to do continues for this long before the others get their turn.
PASS_SECONDS = 0.25
# A worker sends four heartbeats per lease: a shorter standstill costs none its lease.
STANDSTILL_PER_LEASE = 0.5


@dataclass
class MaintenanceTask:
    """Something to do every so often; `needed` says whether the pending work calls for it."""

    name: str
    every_seconds: float
    run: Callable[[], object]
    needed: Callable[[PendingWork], bool] | None = None
    next_at: float = 0.0

    def is_due(self, pending: PendingWork) -> bool:
        """Say whether it is time, and there is something to do."""
        due = time.monotonic() >= self.next_at
        return due and (self.needed is None or self.needed(pending))


class RescueGuard:
    """Forbids marking workers dead for one lease after their heartbeats may have been kept away.

    After an outage, a standstill of the database, a jump of its clock or a failover to another
    server, every lease looks expired. Nobody can say what happened before a worker started, so each
    also watches for one lease before it marks any worker dead.
    """

    def __init__(self) -> None:
        self._active_until = 0.0
        self._answered_at: float | None = None
        self._last_time: tuple[float, datetime] | None = None

    @property
    def active(self) -> bool:
        """Whether no worker may be marked dead."""
        return time.monotonic() < self._active_until

    def activate(self) -> None:
        """Forbid marking workers dead for one lease from now on."""
        self._active_until = time.monotonic() + lease_seconds()

    def observe(self, database_time: datetime | None = None) -> None:
        """Note that the database answers, and its time; call it often."""
        now = time.monotonic()
        gap = 0.0 if self._answered_at is None else now - self._answered_at
        self._answered_at = now
        if database_time is not None:
            if self._last_time is not None:
                then, was = self._last_time
                jump = (database_time - was).total_seconds() - (now - then)
                gap = max(gap, jump)
            self._last_time = now, database_time
        if gap > STANDSTILL_PER_LEASE * lease_seconds():
            self.activate()


class Maintenance:
    """Runs the tasks, from a thread of its own or all at once."""

    def __init__(
        self, state: SharedState, pending_work: PendingWorkReader, *, schedules: bool = False
    ) -> None:
        self._state = state
        self._pending_work = pending_work
        self._sweep = Sweep(state.rng)
        self._demotion = Demotion()
        self._fan_in_cursor: UUID | None = None
        self._batch_cursor: UUID | None = None
        self._run_cursor: UUID | None = None
        self._rescue_guard = RescueGuard()
        per_lease = lease_seconds()
        rescue_every = min(max(per_lease / 6, 0.2), 5.0)
        snapshots = LongTransactionWatch(state)
        self.table = table = TableWatch()
        # The names are those in the log.
        self._tasks = [
            MaintenanceTask("admit", SWEEP_SECONDS, self._admit, attrgetter("waiting")),
            MaintenanceTask("note_starts", SWEEP_SECONDS, note_starts, attrgetter("limited")),
            MaintenanceTask("expire", EXPIRE_SECONDS, self._expire, attrgetter("expiring")),
            MaintenanceTask("demote", DEMOTE_SECONDS, self._demote, attrgetter("limited")),
            MaintenanceTask("send_probes", PROBE_SECONDS, send_probes, attrgetter("open_breakers")),
            MaintenanceTask("drop_idle_breakers", per_lease, drop_idle_breakers),
            MaintenanceTask(
                "drop_idle_buckets", IDLE_SECONDS / 4, drop_idle_buckets, attrgetter("limited")
            ),
            MaintenanceTask("rescue", rescue_every, self._rescue, attrgetter("dead_workers")),
            MaintenanceTask("rescue_orphans", per_lease, self._rescue_orphans),
            MaintenanceTask("free_orphan_slots", per_lease, free_orphan_slots),
            MaintenanceTask("fan_in", FAN_IN_SECONDS, self._sweep_fan_ins, attrgetter("fan_ins")),
            MaintenanceTask("fold_counters", FOLD_SECONDS, self._fold, attrgetter("deltas")),
            MaintenanceTask(
                "follow_runs", RUNS_SECONDS, self._follow_runs, attrgetter("schedule_runs")
            ),
            MaintenanceTask(
                "analyze",
                ANALYZE_SECONDS,
                table.analyze,
                lambda work: table.has_outgrown(work.pages),
            ),
            MaintenanceTask("store_rollups", ROLLUP_SECONDS, state.rollups.store),
            MaintenanceTask("check_snapshots", SNAPSHOT_SECONDS, snapshots.check),
        ]
        if schedules:
            self._tasks += _schedule_tasks()

    def start(self) -> None:
        """Start the thread; the database has just answered."""
        self._rescue_guard.activate()
        self._rescue_guard.observe()
        self._state.start_thread("maintenance", self._loop)

    def run_once(self) -> None:
        """Run every task now, demotion and the sweep to their end.

        Raises:
            DatabaseError: one of them failed.
        """
        for task in self._tasks:
            task.run()
        demote()
        sweep()

    def awaits_rescue(self) -> bool:
        """Say whether a worker that looks dead has jobs, which are rescued when the guard ends.

        Raises:
            DatabaseError: it could not be asked.
        """
        return self._rescue_guard.active and awaits_rescue()

    def _loop(self) -> None:
        outage = Outage(self._state.rng, self._state.halt)
        while not self._state.halt.wait(SWEEP_SECONDS * self._jitter()):
            pending = self._try("read_pending_work", self._pending_work.for_maintenance, outage)
            if pending is None:
                continue
            # Also while no worker looks dead: a jump only shows against a time from before it.
            self._rescue_guard.observe(pending.database_time)
            for task in self._tasks:
                if task.is_due(pending):
                    self._try(task.name, task.run, outage)
                    task.next_at = time.monotonic() + task.every_seconds * self._jitter()
        connection.close()

    def _jitter(self) -> float:
        return self._state.rng.uniform(0.8, 1.2)

    def _try(self, name: str, run: Callable[[], T], outage: Outage) -> T | None:
        """Return what `run` returns, or None if the database fails or rows are locked."""
        try:
            refresh_own_connection()
            answer = run()
            self._rescue_guard.observe()
            outage.over()
        except AWAY as error:
            outage.failed(error)
            self._rescue_guard.activate()
        except LockTimeout:
            # A caller keeps a transaction open. The other tasks must not wait for it, and this one
            # runs again.
            self._rescue_guard.observe()
        except DatabaseError as error:
            emit(Event.MAINTENANCE_FAILED, task=name, error_class=type(error).__name__)
        else:
            return answer
        return None

    def _admit(self) -> None:
        until = time.monotonic() + PASS_SECONDS
        while self._sweep.step():
            wake(())
            if time.monotonic() > until:
                break

    def _demote(self) -> None:
        until = time.monotonic() + PASS_SECONDS
        while self._demotion.step() and time.monotonic() < until:
            pass

    def _fold(self) -> None:
        until = time.monotonic() + PASS_SECONDS
        while fold_counters() == FOLD_BATCH and time.monotonic() < until:
            pass

    def _expire(self) -> None:
        while expire():
            pass

    def _rescue(self) -> None:
        asked_at = database_now()
        self._rescue_guard.observe(asked_at)
        may_mark = not self._rescue_guard.active
        finish_rescue(rescue(self._state.rng, asked_at=asked_at, mark_dead=may_mark))

    def _rescue_orphans(self) -> None:
        if not self._rescue_guard.active:
            finish_rescue(rescue_orphans(self._state.rng))

    def _sweep_fan_ins(self) -> None:
        self._fan_in_cursor = sweep_fan_ins(self._fan_in_cursor)
        self._batch_cursor = sweep_batches(self._batch_cursor)

    def _follow_runs(self) -> None:
        self._run_cursor = follow_runs(self._run_cursor)


def finish_rescue(report: RescueReport) -> None:
    """Emit what a rescue did, admit the capacity it released, and wake workers."""
    if report.workers or report.rescued or report.dead_lettered:
        emit_rescued(report)
        admit(report.released_capacity)
        wake(())


def _schedule_tasks() -> list[MaintenanceTask]:
    scheduler = Scheduler()
    return [
        MaintenanceTask("store_default_schedules", NOTE_SECONDS, scheduler.store_defaults),
        MaintenanceTask("schedule", TICK_SECONDS, scheduler.tick, attrgetter("due_schedules")),
        MaintenanceTask("note_unknown_schedules", NOTE_SECONDS, scheduler.note_unknown),
    ]


class LongTransactionWatch:
    """Logs each long transaction once; of all live workers only the eldest does."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._known: frozenset[str] = frozenset()

    def check(self) -> None:
        """Read which transactions hold an old snapshot, and log those that are new."""
        pinned = {holder.name: holder for holder in holders() if is_pinned(holder)}
        fresh = [holder for name, holder in pinned.items() if name not in self._known]
        if fresh and self._is_eldest():
            for holder in fresh:
                emit(
                    Event.SNAPSHOT_PINNED,
                    holder=holder.name,
                    held_s=round(holder.seconds),
                    mend=holder.mend,
                )
        self._known = frozenset(pinned)

    def _is_eldest(self) -> bool:
        live = Worker.objects.filter(dead_at__isnull=True, lease_expires_at__gt=database_now())
        return live.order_by("pk").values_list("pk", flat=True).first() == self._state.worker_id
