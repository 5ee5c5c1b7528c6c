"""The parent of the worker processes: starts them, passes signals on, restarts those that died.

It has no threads and no database connection, so nothing a handler does can hurt it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
WATCHED = (*STOP_SIGNALS, signal.SIGCHLD)
TICK_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
# A child that ran this long did not fail at its start: the pauses start over.
HEALTHY_SECONDS = 30.0
BURST_FAILURES = 3
PR_SET_PDEATHSIG = 1


@dataclass
class Child:
    """One worker process and when it may be started again (monotonic seconds)."""

    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    start_at: float = 0.0
    exit_code: int | None = None


class Supervisor:
    """Keeps one process per command running.

    Without `lasting` (a burst), a child that exits with 0 is done, and one that keeps failing at its
    start is given up. Otherwise every child is restarted, whatever its exit code: a handler may
    have chosen it.
    """

    def __init__(self, commands: Sequence[Sequence[str]], *, lasting: bool) -> None:
        self._commands = commands
        self._lasting = lasting
        self._children = [Child() for _ in commands]
        self._stopping = False

    def run(self) -> int:
        """Run until every child is done, given up or stopped; return the exit code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        while True:
            self._reap()
            self._start_due()
            if all(
                child.process is None and child.exit_code is not None for child in self._children
            ):
                return max(child.exit_code or 0 for child in self._children)
            self._pass_on(signal.sigtimedwait(WATCHED, TICK_SECONDS))

    def _start_due(self) -> None:
        for child, command in zip(self._children, self._commands, strict=True):
            if child.process is not None or child.exit_code is not None:
                continue
            if self._stopping:
                child.exit_code = 0
            elif time.monotonic() >= child.start_at:
                child.process = subprocess.Popen(command)  # noqa: S603 - our own command line
                child.started_at = time.monotonic()

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

    def _pass_on(self, received: signal.struct_siginfo | None) -> None:
        """Pass on the first request to stop; kill the children at the second."""
        # After a stop (Ctrl-Z) Python may return the number of no signal at all.
        if received is None or received.si_signo not in STOP_SIGNALS:
            return
        for child in self._children:
            if child.process is not None:
                child.process.send_signal(signal.SIGKILL if self._stopping else signal.SIGTERM)
        self._stopping = True


def die_with_parent() -> None:
    """Let this process be killed when its parent dies. Does nothing where it is not Linux."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
