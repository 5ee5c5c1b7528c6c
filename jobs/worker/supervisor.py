"""The parent of the worker processes: starts them, stops them, replaces those that died.

The supervisor has no threads and no database connection, so nothing a handler does can hurt it; its
sidecar does the work that needs these. Only the supervisor decides when a process is killed. It
reads from the running slots what was running in a process that died.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from jobs.conf import lease_seconds
from jobs.engine.lease import HEARTBEATS_PER_LEASE
from jobs.engine.outcomes import message_of
from jobs.execution.events import Event, emit
from jobs.worker.child import Child, Program
from jobs.worker.orphans import Orphans
from jobs.worker.running import INTERRUPT_SECONDS
from jobs.worker.sidecar import Sidecar
from jobs.worker.signals import STOP_SIGNALS, WATCHED, is_ctrl_c, watch
from jobs.worker.worker import DRAIN_SECONDS

TICK_SECONDS = 0.5
TICKS_PER_LEASE = 16
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
# A child that ran this long, or a handler, did not fail at its start: the pauses begin again.
HEALTHY_SECONDS = 30.0
BURST_FAILURES = 3
# A child shows no life while a handler holds the interpreter's lock. The supervisor extends its
# lease until this time is over, or the handler's own timeout.
SILENT_LEASES = 10
LEAST_SILENT_SECONDS = 30.0
# A child that was silent for less may just be slow.
SURELY_SILENT_SECONDS = 2.0
OUTPUTS = (1, 2)


class Supervisor:
    """Keeps one process per program running.

    With `lasting`, every child is restarted, whatever its exit code. In a burst a child that exits
    with 0 is done, unless its handlers had not ended, because one of them may have chosen the exit
    code; one that keeps failing at its start is given up. A worker that an operator asked to end is
    not replaced. With `forks`, children are forks of this process where that is safe.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        threads: int,
        grace_seconds: float,
        lasting: bool,
        forks: bool = True,
    ) -> None:
        self._lasting = lasting
        self._children = [Child(program, threads, forks=forks) for program in programs]
        self._sidecar = Sidecar([child.slots for child in self._children])
        self._orphans = Orphans()
        self._grace_seconds = grace_seconds
        # Within this time a stopping child has released its jobs and stored all outcomes.
        self._stop_seconds = grace_seconds + DRAIN_SECONDS + INTERRUPT_SECONDS
        self._stopping_since = inf
        self._tick_seconds = min(TICK_SECONDS, lease_seconds() / TICKS_PER_LEASE)

    def run(self) -> int:
        """Run until every child is done, given up or stopped; return the exit code."""
        _close_connections()
        # If it is ignored, which a shell or an app may have asked for, nobody learns how a child ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        watch()
        self._orphans.adopt()
        self._start_due()
        while True:
            # Without a sidecar, workers rescue jobs when leases end, until there is room for
            # another process.
            with suppress(OSError):
                self._sidecar.start()
            self._reap()
            self._orphans.observe(self._own_pids())
            self._start_due()
            if all(
                child.process is None and child.exit_code is not None for child in self._children
            ):
                self._sidecar.end()
                self._orphans.end()
                return max(child.exit_code or 0 for child in self._children)
            began_at = time.monotonic()
            self._receive(signal.sigtimedwait(WATCHED, self._tick_seconds))
            # If more time has passed, a signal had stopped this process, and its children with it.
            seconds = min(time.monotonic() - began_at, 2 * self._tick_seconds)
            for child in self._children:
                child.observe(seconds)
                self._watch(child)

    @property
    def _stopping(self) -> bool:
        return self._stopping_since < inf

    def _own_pids(self) -> set[int]:
        pids = {child.process.pid for child in self._children if child.process is not None}
        return pids | {self._sidecar.pid}

    def _start_due(self) -> None:
        for child in self._children:
            if child.process is not None or child.exit_code is not None:
                continue
            if self._stopping:
                child.exit_code = 0
            elif time.monotonic() >= child.start_at:
                self._start(child)

    def _start(self, child: Child) -> None:
        try:
            is_child = child.start()
        except OSError as error:
            _emit(Event.WORKER_NOT_STARTED, error=message_of(error))
            self._schedule_restart(child)
            return
        if is_child:
            self._sidecar.leave()
            child.run()

    def _reap(self) -> None:
        for number, child in enumerate(self._children):
            if child.process is None:
                continue
            code, pid = child.process.poll(), child.process.pid
            if code is None:
                continue
            child.process = None
            self._orphans.worker_ended()
            worker_id, running = child.slots.worker_id, child.slots.running
            if worker_id is not None:
                self._sidecar.rescue(number, worker_id, running)
            child.slots.clear()
            if child.slots.ends_for_good:
                _emit(Event.WORKER_NOT_REPLACED, pid=pid, exit_code=code)
                child.exit_code = 1 if child.slots.is_mistaken else 0
            elif self._stopping or (code == 0 and not self._lasting and not running):
                child.exit_code = max(code, 0) if code >= 0 else 1
            else:
                self._schedule_restart(child, by_handler=bool(running))

    def _watch(self, child: Child) -> None:
        """Extend the lease of a child that shows no life; kill one that is past all limits."""
        worker_id = child.slots.worker_id
        if child.process is None or child.is_killed or worker_id is None:
            return
        reason = self._reason_to_kill(child)
        if reason:
            _emit(
                Event.WORKER_KILLED,
                worker_id=str(worker_id),
                reason=reason,
                silent_s=round(child.silent_seconds, 1),
            )
            child.is_killed = True
            child.send(signal.SIGKILL)
            return
        pause = lease_seconds() / HEARTBEATS_PER_LEASE
        now = time.monotonic()
        if child.silent_seconds > pause and now - child.heartbeat_at > pause:
            child.heartbeat_at = now
            self._sidecar.heartbeat(worker_id)

    def _reason_to_kill(self, child: Child) -> str:
        """Return why this child has to be killed; empty if it has not."""
        silent = child.silent_seconds
        if silent > max(SILENT_LEASES * lease_seconds(), LEAST_SILENT_SECONDS):
            return "silent"
        # A child that is not silent ends by itself when it cannot interrupt a handler.
        is_silent = silent > SURELY_SILENT_SECONDS
        overdue_seconds = time.monotonic() - child.slots.first_deadline
        if overdue_seconds > INTERRUPT_SECONDS + (0.0 if is_silent else self._stop_seconds):
            return "job_overdue"
        stopping_seconds = time.monotonic() - self._stopping_since
        if stopping_seconds > (self._grace_seconds if is_silent else self._stop_seconds):
            return "grace_over"
        return ""

    def _schedule_restart(self, child: Child, *, by_handler: bool = False) -> None:
        is_healthy = by_handler or time.monotonic() - child.started_at > HEALTHY_SECONDS
        child.failures = 1 if is_healthy else child.failures + 1
        if not self._lasting and child.failures >= BURST_FAILURES:
            child.exit_code = 1
            return
        pause = FIRST_PAUSE_SECONDS * 2 ** (child.failures - 1)
        child.start_at = time.monotonic() + min(pause, LONGEST_PAUSE_SECONDS)

    def _receive(self, received: signal.struct_siginfo | None) -> None:
        """Stop all at the first request, and kill them at the second.

        A signal that is sent to the whole process group again is no second request, because service
        managers repeat themselves. Ctrl-C is one, although the terminal sends it to the group.
        SIGHUP never is: an ending session may send it to its leader alone, and the kernel again.
        """
        # After a stop (Ctrl-Z) Python may return the number of no signal at all.
        if received is None or received.si_signo not in STOP_SIGNALS:
            return
        if not self._stopping:
            self._stopping_since = time.monotonic()
            for child in self._children:
                child.send(signal.SIGTERM)
        elif received.si_signo == signal.SIGHUP:
            return
        elif is_ctrl_c(received) or not self._sidecar.got_signal_at(time.monotonic()):
            self._kill_all()

    def _kill_all(self) -> None:
        for child in self._children:
            child.send(signal.SIGKILL)


def _emit(event: Event, **fields: Any) -> None:
    """Emit the event, unless stdout or stderr is a pipe that is full: this process must not wait."""
    outputs = select.poll()
    for output in OUTPUTS:
        outputs.register(output, select.POLLOUT)
    if len(outputs.poll(0)) == len(OUTPUTS):
        emit(event, **fields)


def _close_connections() -> None:
    """Close the connections and pools that an app, or a check, has opened: forks would share them.

    In a fork a pool has no threads that replace a broken connection.
    """
    connections.close_all()
    for alias in connections:
        # Only some databases have pools. One that is set up wrongly, or whose driver is missing, is
        # reported by what uses it, if anything does.
        with suppress(ImproperlyConfigured, TypeError, ValueError):
            getattr(connections[alias], "close_pool", lambda: None)()
