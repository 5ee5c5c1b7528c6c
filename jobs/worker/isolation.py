"""Isolated processes as their worker sees them: each runs one quarantined job at a time.

A process starts when it is first needed, is used again for the next job, and ends when it was idle
for a while or when its worker ends. It has no lease: its jobs are claimed by the worker.

The worker and the process exchange JSON, because whoever can write to the socket could run code
with pickle.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import Pipe
from random import Random
from typing import Any, get_args

from pydantic import TypeAdapter

from jobs.conf import isolated_memory_mb
from jobs.engine.claim import Claim
from jobs.engine.outcomes import Completed, Outcome, Released
from jobs.execution.executor import died, timed_out
from jobs.worker.signals import IGNORED_SIGNALS, STOP_SIGNALS
from jobs.worker.threads import Runner, StopReason

# The process ignores stop signals from its first line on, because its worker decides when it ends,
# even if a service manager signals all processes. It sets a handler instead of SIG_IGN, which
# programs that a job starts would inherit. It imports from the same sys.path as its worker.
_SIGNALS = [int(one) for one in (*STOP_SIGNALS, *IGNORED_SIGNALS)]
START = (
    "import signal, sys;"
    f" [signal.signal(one, lambda *_: None) for one in {_SIGNALS}];"
    " sys.path[:] = sys.argv[2:]; import django; django.setup();"
    " from jobs.worker.isolation_child import main; main(int(sys.argv[1]))"
)
START_SECONDS = 60.0
IDLE_SECONDS = 30.0
# How often to look whether the process lives: a grandchild may keep the connection open.
CHECK_SECONDS = 0.25
EXIT_OUT_OF_MEMORY = 77

_CLAIM = TypeAdapter(Claim)
_OUTCOMES = {kind.__name__: TypeAdapter(kind) for kind in get_args(Outcome)}


def encode(message: dict[str, Any]) -> bytes:
    """Return the bytes of a message."""
    return json.dumps(message, default=str).encode()


def encode_claim(claim: Claim) -> bytes:
    """Return the request to run the claimed job."""
    return encode({"run": claim._asdict()})


def decode_claim(fields: dict[str, Any]) -> Claim:
    """Return the claim of a request's `run`."""
    return _CLAIM.validate_python(fields)


def encode_outcome(outcome: Outcome) -> bytes:
    """Return the answer with this outcome."""
    if isinstance(outcome, Completed):
        # asdict() would copy the result, which classes of the handler may not allow.
        result = json.loads(outcome.text) if outcome.text else outcome.result
        fields = {"result": result, "text": outcome.text}
    else:
        fields = asdict(outcome)
    return encode({"outcome": type(outcome).__name__, "fields": fields})


def decode_outcome(answer: bytes) -> Outcome:
    """Return the outcome of an answer.

    Raises:
        ValueError: the answer is damaged.
    """
    match json.loads(answer):
        case {"outcome": str(kind), "fields": fields} if kind in _OUTCOMES:
            outcome: Outcome = _OUTCOMES[kind].validate_python(fields)
            return outcome
    raise ValueError("the isolated process returned no outcome")


class ProcessDied(Exception):
    """The process ended without an answer; the text says how."""


class IsolatedProcess:
    """A running process; `idle_since` (monotonic) is when its last job ended.

    Raises:
        ProcessDied: it could not be started.
    """

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        self._sending = threading.Lock()
        self.idle_since = 0.0
        self._killed = False
        with theirs:
            try:
                # With its own group, a handler that signals its process group reaches nobody else.
                self._process = subprocess.Popen(  # noqa: S603 - our own command line
                    [sys.executable, "-c", START, str(theirs.fileno()), *sys.path],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    process_group=0,
                )
            except OSError as error:
                self._connection.close()
                raise ProcessDied(f"no process could be started: {error.strerror}") from error

    @property
    def alive(self) -> bool:
        """Whether the process runs and was not killed; a killed one ends a moment later."""
        return not self._killed and self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until the process can take a job.

        Raises:
            ProcessDied: the process ended, or did not become ready in time.
        """
        self._receive(time.monotonic() + START_SECONDS)

    def run(self, claim: Claim) -> Outcome:
        """Run the claimed job's handler in the process.

        Raises:
            ProcessDied: the handler ended it, or `kill` did, or its answer is damaged.
        """
        self._send(encode_claim(claim))
        try:
            return decode_outcome(self._receive())
        except ValueError:
            # The handler itself wrote to the connection.
            raise self._end() from None

    def stop(self, reason: StopReason) -> None:
        """Pass the request on to the handler."""
        self._send(encode({"stop": reason.value}))

    def kill(self) -> None:
        """End the process by force; `run` raises."""
        self._killed = True
        self._process.kill()
        # Otherwise `run` could wait for half a message while a grandchild keeps the other end open.
        fileno = self._connection.fileno
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the process and release its resources; no `run` may be under way."""
        self._process.kill()
        self._process.wait()
        self._connection.close()

    def _send(self, message: bytes) -> None:
        # No error is raised: the thread that waits for the answer notices that the process is gone.
        with self._sending, contextlib.suppress(OSError):
            self._connection.send_bytes(message)

    def _receive(self, deadline: float = float("inf")) -> bytes:
        try:
            while not self._connection.poll(CHECK_SECONDS):
                if not self.alive or time.monotonic() > deadline:
                    raise self._end()
            # No message can be larger than the memory of its sender.
            return self._connection.recv_bytes(isolated_memory_mb() * 2**20)
        except (EOFError, OSError):
            raise self._end() from None

    def _end(self) -> ProcessDied:
        """Make sure the process has ended and return how."""
        # A process that closed the connection is about to exit; its exit code says why.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CHECK_SECONDS)
        self._process.kill()
        return ProcessDied(_cause(self._process.wait()))


def _cause(code: int) -> str:
    if code == EXIT_OUT_OF_MEMORY:
        return f"out of memory; its limit is {isolated_memory_mb()} MB"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class IsolatedProcesses:
    """The isolated processes of one worker."""

    def __init__(self) -> None:
        self._idle: list[IsolatedProcess] = []
        self._lock = threading.Lock()

    @contextmanager
    def lend(self) -> Iterator[IsolatedProcess]:
        """Lend a process that is ready for a job.

        Raises:
            ProcessDied: none could be started.
        """
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is not None and not process.alive:
            process.close()
            process = None
        if process is None:
            process = IsolatedProcess()
        try:
            if not process.idle_since:
                process.wait_until_ready()
            yield process
        finally:
            self._return(process)

    def end_idle(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """End the processes that were idle for this long."""
        horizon = time.monotonic() - idle_seconds
        with self._lock:
            ending = [one for one in self._idle if one.idle_since <= horizon]
            self._idle = [one for one in self._idle if one not in ending]
        for process in ending:
            process.close()

    def _return(self, process: IsolatedProcess) -> None:
        if not process.alive:
            process.close()
            return
        process.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(process)


class ProcessRunner(Runner):
    """Runs a handler in an isolated process."""

    def __init__(self, claim: Claim, process: IsolatedProcess, rng: Random) -> None:
        self.claim = claim
        self._process = process
        self._rng = rng
        self._killed_for: StopReason | None = None
        # The process may get another job at once, which this runner must not stop.
        self._ended = False
        self._lock = threading.Lock()

    def run(self) -> Outcome:
        """Run the handler in the process while this thread waits; the process's end is a death."""
        try:
            return self._run()
        finally:
            with self._lock:
                self._ended = True

    def _run(self) -> Outcome:
        try:
            return self._process.run(self.claim)
        except ProcessDied as death:
            match self._killed_for:
                case None:
                    return died(self.claim, str(death), rng=self._rng)
                case StopReason.LEASE_LOST:
                    return Released("lease lost")
                case _:
                    return timed_out(self.claim, rng=self._rng)

    def stop(self, reason: StopReason) -> None:
        """Ask the handler to stop; if the lease is lost, end the process at once."""
        with self._lock:
            if self._ended:
                return
            if reason is StopReason.LEASE_LOST:
                self._kill(reason)
            else:
                self._process.stop(reason)

    def kill(self) -> bool:
        """End the process for being overdue."""
        with self._lock:
            if not self._ended:
                self._kill(StopReason.TIMEOUT)
        return True

    def _kill(self, reason: StopReason) -> None:
        self._killed_for = self._killed_for or reason
        self._process.kill()
