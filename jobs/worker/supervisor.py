"""The parent of the worker processes: starts them, stops them, replaces those that died.

It has no threads and no database connection, so nothing a handler does can hurt it. What needs
these is done by its sidecar. It alone decides when a process is killed.
"""

from __future__ import annotations

import mmap
import signal
import subprocess
import time
from collections.abc import Sequence
from math import inf

from jobs.worker.running import INTERRUPT_SECONDS
from jobs.worker.running_slots import RunningSlots, shared_file
from jobs.worker.sidecar import Sidecar
from jobs.worker.signals import STOP_SIGNALS, WATCHED
from jobs.worker.worker import DRAIN_SECONDS

TICK_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
# A child that ran this long did not fail at its start: the pauses start over.
HEALTHY_SECONDS = 30.0
BURST_FAILURES = 3
# <asm-generic/siginfo.h>: a signal of the kernel's own, as Ctrl-C is.
SI_KERNEL = 0x80


class Child:
    """One worker process at a time, and when it may be started again (monotonic seconds)."""

    def __init__(self, command: Sequence[str], threads: int) -> None:
        self._slots_file = shared_file(threads)
        self._command = [*command, "--running-slots", str(self._slots_file)]
        self.slots = RunningSlots(mmap.mmap(self._slots_file, 0))
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.failures = 0
        self.start_at = 0.0
        self.exit_code: int | None = None

    def start(self) -> None:
        """Start the process."""
        self.process = subprocess.Popen(  # noqa: S603 - our own command line
            self._command, pass_fds=[self._slots_file]
        )
        self.started_at = time.monotonic()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process runs."""
        if self.process is not None:
            self.process.send_signal(number)


class Supervisor:
    """Keeps one process per command running.

    Without `lasting` (a burst), a child that exits with 0 is done, and one that keeps failing at its
    start is given up. Otherwise every child is restarted, whatever its exit code: a handler may
    have chosen it.
    """

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        *,
        threads: int,
        grace_seconds: float,
        lasting: bool,
    ) -> None:
        self._lasting = lasting
        self._children = [Child(command, threads) for command in commands]
        self._sidecar = Sidecar()
        # By then a child has released what it was running, and stored all outcomes.
        self._stop_seconds = grace_seconds + DRAIN_SECONDS + INTERRUPT_SECONDS
        self._kill_at = inf
        self._stopping = False

    def run(self) -> int:
        """Run until every child is done, given up or stopped; return the exit code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        while True:
            self._sidecar.start()
            self._reap()
            self._start_due()
            if all(
                child.process is None and child.exit_code is not None for child in self._children
            ):
                self._sidecar.end()
                return max(child.exit_code or 0 for child in self._children)
            self._receive(signal.sigtimedwait(WATCHED, TICK_SECONDS))
            if time.monotonic() > self._kill_at:
                self._kill_all()

    def _start_due(self) -> None:
        for child in self._children:
            if child.process is not None or child.exit_code is not None:
                continue
            if self._stopping:
                child.exit_code = 0
            elif time.monotonic() >= child.start_at:
                child.start()

    def _reap(self) -> None:
        for child in self._children:
            if child.process is None:
                continue
            code = child.process.poll()
            if code is None:
                continue
            child.process = None
            if self._stopping or (code == 0 and not self._lasting):
                child.exit_code = max(code, 0) if code >= 0 else 1
            else:
                self._schedule_restart(child)

    def _schedule_restart(self, child: Child) -> None:
        ran_seconds = time.monotonic() - child.started_at
        child.failures = 1 if ran_seconds > HEALTHY_SECONDS else child.failures + 1
        if not self._lasting and child.failures >= BURST_FAILURES:
            child.exit_code = 1
            return
        pause = FIRST_PAUSE_SECONDS * 2 ** (child.failures - 1)
        child.start_at = time.monotonic() + min(pause, LONGEST_PAUSE_SECONDS)

    def _receive(self, received: signal.struct_siginfo | None) -> None:
        """Stop all at the first request, and kill them at the second.

        A signal that is sent to the whole process group again is no second request: service
        managers repeat themselves. Ctrl-C is one, though the terminal sends it to the group.
        """
        # After a stop (Ctrl-Z) Python may return the number of no signal at all.
        if received is None or received.si_signo not in STOP_SIGNALS:
            return
        if not self._stopping:
            self._stopping = True
            self._kill_at = time.monotonic() + self._stop_seconds
            for child in self._children:
                child.send(signal.SIGTERM)
        elif received.si_code == SI_KERNEL or not self._sidecar.got_signal_at(time.monotonic()):
            self._kill_all()

    def _kill_all(self) -> None:
        for child in self._children:
            child.send(signal.SIGKILL)
