"""One worker process of a supervisor: a fork of it, where that is safe."""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from jobs.worker.running_slots import RunningSlots, shared_file


@dataclass(frozen=True)
class Program:
    """What a worker process runs, in both forms."""

    # Runs it in this process and returns its exit code.
    run: Callable[[RunningSlots], int]
    # Runs it in a new interpreter, with `--running-slots` and a descriptor appended.
    command: Sequence[str]


class Process(Protocol):
    """What the supervisor needs of a process that it started, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None:
        """Return its exit code once it has ended; a signal that killed it as a negative number."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""


class ForkedProcess:
    """A process that this one forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code once it has ended; a signal that killed it as a negative number."""
        if self._exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._exit_code = os.waitstatus_to_exitcode(status)
        return self._exit_code

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        # Only `poll` frees the number for another process.
        if self.poll() is None:
            os.kill(self.pid, sig)


class Child:
    """One worker process at a time, and when it may be started again (monotonic seconds)."""

    def __init__(self, program: Program, threads: int, *, forks: bool) -> None:
        self._program = program
        self._forks = forks
        self._slots_file = shared_file(threads)
        self.slots = RunningSlots(mmap.mmap(self._slots_file, 0))
        self.process: Process | None = None
        self.started_at = 0.0
        self.failures = 0
        self.start_at = 0.0
        self.exit_code: int | None = None
        # For how long it has shown no life, and when its lease was last extended for that.
        self.silent_seconds = 0.0
        self.heartbeat_at = 0.0
        self.is_killed = False
        self._liveness = 0

    def start(self) -> bool:
        """Start the process; return whether this is it. If so, call `run`.

        Raises:
            OSError: the system has no room for it, or the interpreter is gone.
        """
        self.started_at = time.monotonic()
        self.is_killed = False
        if self._forks and may_fork():
            flush_streams()
            pid = os.fork()
            self.process = ForkedProcess(pid)
            return not pid
        command = [*self._program.command, "--running-slots", str(self._slots_file)]
        self.process = subprocess.Popen(  # noqa: S603 - our own command line
            command, pass_fds=[self._slots_file]
        )
        return False

    def run(self) -> NoReturn:
        """Run the program in this process, and end the process as the interpreter would.

        Nothing is raised, because the code that called the supervisor is that of another process:
        it would start another one, or remove what belongs to that process.
        """
        code = 1
        try:
            code = self._program.run(self.slots)
        except BaseException:  # noqa: BLE001 - as the interpreter does at its end
            traceback.print_exc()
        _end_interpreter(code)

    def observe(self, seconds: float) -> None:
        """Note whether the process showed life in these seconds; a stopped one need not."""
        liveness = self.slots.liveness
        if self.process is None or liveness != self._liveness or self._is_stopped(self.process.pid):
            self.silent_seconds = 0.0
        else:
            self.silent_seconds += seconds
        self._liveness = liveness

    @staticmethod
    def _is_stopped(pid: int) -> bool:
        """Say whether SIGSTOP or the like stopped it."""
        try:
            stopped = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            # It has ended, and is about to be reaped.
            return False
        return stopped is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process runs."""
        if self.process is not None:
            self.process.send_signal(number)


def _end_interpreter(code: int) -> NoReturn:
    """Wait for threads, call the functions that were registered for the exit, and end.

    `multiprocessing` ends its forks by the same functions, as there are no public ones.
    """
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    with suppress(BaseException):
        atexit._run_exitfuncs()  # noqa: SLF001
    flush_streams()
    os._exit(code)


def may_fork() -> bool:
    """Say whether a fork of this process would be whole: it has no other thread.

    A fork has only the thread that forked. The project's apps may have started others when they
    were loaded, some of them in C libraries, which Python does not know. A fork needs no second for
    loading the code, and shares the memory that this took.
    """
    with suppress(OSError):
        return len(list(Path("/proc/self/task").iterdir())) == 1
    # Not Linux. On macOS a fork may not use the system's frameworks.
    return False


def flush_streams() -> None:
    """Print what is in the buffers of stdout and stderr: a fork would print it a second time."""
    for stream in (sys.stdout, sys.stderr):
        # An error means that it never is printed.
        with suppress(OSError):
            stream.flush()
