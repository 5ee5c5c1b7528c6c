"""Isolated processes as their worker sees them: each runs one suspect at a time, alone.

A process starts when the first suspect comes, is used again for the next, and ends when it was
idle for a while or when its worker goes. It holds no lease: what it runs is the worker's.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from jobs.conf import isolated_memory_mb
from jobs.engine.claim import Claim
from jobs.engine.outcomes import Outcome, Released
from jobs.execution.executor import died, timed_out
from jobs.worker.attempts import Attempt, Stop
from jobs.worker.isolation_wire import Channel, pack_claim, read_outcome

# It imports what its worker imports, wherever and however that one was started.
START = (
    "import sys; sys.path[:] = sys.argv[2:]; import django; django.setup();"
    " from jobs.worker.isolation_child import main; main(int(sys.argv[1]))"
)
START_SECONDS = 60.0
IDLE_SECONDS = 30.0
# A grandchild may hold the connection open when the process itself is gone.
LOOK_SECONDS = 0.25
EXIT_OUT_OF_MEMORY = 77


class ProcessDied(Exception):
    """The process ended without an answer; the text says how."""


class IsolatedProcess:
    """A running process; `idle_since` (monotonic) is when its last job ended.

    Raises:
        ProcessDied: it could not be started.
    """

    def __init__(self) -> None:
        mine, its = socket.socketpair()
        self._channel = Channel(mine)
        self.idle_since = 0.0
        self._killed = False
        with its:
            try:
                # A handler that signals its group reaches nobody else.
                self._process = subprocess.Popen(  # noqa: S603 - our own command line
                    [sys.executable, "-c", START, str(its.fileno()), *sys.path],
                    pass_fds=[its.fileno()],
                    stdin=subprocess.DEVNULL,
                    process_group=0,
                )
            except OSError as error:
                self._channel.close()
                raise ProcessDied(f"no process to be had: {error.strerror}") from error

    @property
    def alive(self) -> bool:
        """Whether the process has neither ended nor been killed, of which it ends a moment later."""
        return not self._killed and self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until it can take a job.

        Raises:
            ProcessDied: it never could.
        """
        self._receive(time.monotonic() + START_SECONDS)

    def run(self, claim: Claim) -> Outcome:
        """Run the claimed job's handler there.

        Raises:
            ProcessDied: it died of it, or was killed.
        """
        with contextlib.suppress(EOFError):
            self._channel.send({"run": pack_claim(claim)})
        try:
            return read_outcome(self._receive())
        except ValueError:
            # The handler wrote into what it should not know of.
            raise self._dead() from None

    def stop(self, why: Stop) -> None:
        """Pass the request on to the handler."""
        with contextlib.suppress(EOFError):
            self._channel.send({"stop": why.value})

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._killed = True
        self._process.kill()

    def end(self) -> None:
        """End the process and tidy up; nobody may be waiting for its answer."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _receive(self, deadline: float = float("inf")) -> dict[str, object]:
        try:
            while (message := self._channel.receive(LOOK_SECONDS)) is None:
                if not self.alive or time.monotonic() > deadline:
                    raise self._dead()
        except (EOFError, ValueError):
            raise self._dead() from None
        return message

    def _dead(self) -> ProcessDied:
        """Make sure that it is, and say of what."""
        # Who hangs up is about to end; a moment later its exit code says of what.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LOOK_SECONDS)
        self._process.kill()
        return ProcessDied(_cause(self._process.wait()))


class Isolation:
    """The isolated processes of one worker."""

    def __init__(self) -> None:
        self._idle: list[IsolatedProcess] = []
        self._changing = threading.Lock()

    @contextmanager
    def process(self) -> Iterator[IsolatedProcess]:
        """Lend a process that is ready for a job.

        Raises:
            ProcessDied: none could be started.
        """
        with self._changing:
            process = self._idle.pop() if self._idle else None
        if process is not None and not process.alive:
            process.end()
            process = None
        if process is None:
            process = IsolatedProcess()
        try:
            if not process.idle_since:
                process.wait_until_ready()
            yield process
        finally:
            self._take_back(process)

    def end_idle(self, since_seconds: float = IDLE_SECONDS) -> None:
        """End the processes that nobody used for so long."""
        horizon = time.monotonic() - since_seconds
        with self._changing:
            ending = [one for one in self._idle if one.idle_since <= horizon]
            self._idle = [one for one in self._idle if one not in ending]
        for process in ending:
            process.end()

    def _take_back(self, process: IsolatedProcess) -> None:
        if not process.alive:
            process.end()
            return
        process.idle_since = time.monotonic()
        with self._changing:
            self._idle.append(process)


class InProcess(Attempt):
    """A suspect's handler, in an isolated process."""

    def __init__(self, claim: Claim, process: IsolatedProcess, rng: Random) -> None:
        self._claim = claim
        self._process = process
        self._rng = rng
        self._killed_for: Stop | None = None

    def run(self) -> Outcome:
        """Run the handler there while this thread waits; if the process dies, so did the job."""
        try:
            return self._process.run(self._claim)
        except ProcessDied as death:
            match self._killed_for:
                case None:
                    return died(self._claim, str(death), rng=self._rng)
                case Stop.LEASE_LOST:
                    return Released("lease lost")
                case _:
                    return timed_out(self._claim, rng=self._rng)

    def stop(self, why: Stop) -> None:
        """Ask the handler to stop; a job that is no longer ours ends at once."""
        if why is Stop.LEASE_LOST:
            self._kill(why)
        else:
            self._process.stop(why)

    def kill(self) -> bool:
        """End the process for being overdue."""
        self._kill(Stop.TIMEOUT)
        return True

    def _kill(self, why: Stop) -> None:
        self._killed_for = self._killed_for or why
        self._process.kill()


def _cause(code: int) -> str:
    if code == EXIT_OUT_OF_MEMORY:
        return f"out of memory, of which it may have {isolated_memory_mb()} MB"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
