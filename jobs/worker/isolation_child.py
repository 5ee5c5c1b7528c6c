"""An isolated process from the inside: takes one claim at a time and answers with its outcome."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from random import SystemRandom

from jobs import registry
from jobs.conf import isolated_memory_mb
from jobs.engine.claim import Claim
from jobs.engine.outcomes import DeadLettered, Outcome, Retry
from jobs.execution.context import Signals
from jobs.worker.attempts import Attempt, OnThread, Stop
from jobs.worker.database import refresh_connection
from jobs.worker.die_with_parent import end_with_parent
from jobs.worker.eventloop import EventLoop, OnLoop
from jobs.worker.isolation import EXIT_OUT_OF_MEMORY
from jobs.worker.isolation_wire import Channel, pack_outcome, read_claim


def main(handle: int) -> None:
    """Serve the worker at the other end of the socket `handle` until it hangs up."""
    end_with_parent()
    faulthandler.enable()
    # The worker decides when this ends. Unlike SIG_IGN, a handler is not passed on to programs
    # that a job starts.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _limit_memory(isolated_memory_mb() * 2**20)
    connection = socket.socket(fileno=handle)
    connection.set_inheritable(False)
    with contextlib.suppress(EOFError):
        Server(Channel(connection)).serve()
    # Without a farewell to threads that a handler may have left behind.
    os._exit(0)


class Server:
    """Runs what the worker sends."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._rng = SystemRandom()
        self._attempts: SimpleQueue[Attempt] = SimpleQueue()
        self._event_loop = EventLoop(_start_thread)

    def serve(self) -> None:
        """Say that this process is ready; run one job after the other on this thread."""
        _start_thread("worker", self._listen)
        self._channel.send({"ready": True})
        while True:
            attempt = self._attempts.get()
            try:
                outcome = attempt.run()
            except MemoryError:
                os._exit(EXIT_OUT_OF_MEMORY)
            if _ran_out_of_memory(outcome):
                # Nobody knows what else could not be had on the way: this process is spoiled.
                os._exit(EXIT_OUT_OF_MEMORY)
            self._channel.send(pack_outcome(outcome))
            refresh_connection(ask=True)

    def _listen(self) -> None:
        """Hear the worker, also while a handler runs; end this process when it hangs up."""
        newest: Attempt | None = None
        while True:
            try:
                message = self._channel.receive() or {}
            except EOFError:
                os._exit(0)
            if "run" in message:
                newest = self._attempt(read_claim(message["run"]))
                self._attempts.put(newest)
            elif newest is not None:
                newest.stop(Stop(message["stop"]))

    def _attempt(self, claim: Claim) -> Attempt:
        declared = registry.find(claim.job_type)
        if declared is not None and declared.is_async:
            return OnLoop(claim, Signals(), self._rng, self._event_loop)
        return OnThread(claim, Signals(), self._rng)


def _ran_out_of_memory(outcome: Outcome) -> bool:
    if isinstance(outcome, Retry | DeadLettered):
        return outcome.failure.error_class == MemoryError.__name__
    return False


def _start_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()


def _limit_memory(limit: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # Where the machine itself runs out, the kernel had better choose this process.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
