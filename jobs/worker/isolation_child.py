"""An isolated process from the inside: runs one claim at a time and answers with its outcome."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from random import SystemRandom

from jobs import registry
from jobs.conf import isolated_memory_mb
from jobs.engine.claim import Claim
from jobs.engine.outcomes import DeadLettered, Outcome, Retry
from jobs.execution.child_process import die_with_parent, limit_memory
from jobs.execution.context import Signals
from jobs.worker.eventloop import EventLoop, EventLoopRunner
from jobs.worker.isolation import EXIT_OUT_OF_MEMORY, decode_claim, encode, encode_outcome
from jobs.worker.signals import IGNORED_SIGNALS, STOP_SIGNALS, handle_in_this_process, ignore
from jobs.worker.state import refresh_connection
from jobs.worker.threads import Runner, StopReason, ThreadRunner


def main(handle: int) -> None:
    """Serve the worker at the other end of the socket `handle` until it closes the connection."""
    die_with_parent()
    handle_in_this_process(dict.fromkeys((*STOP_SIGNALS, *IGNORED_SIGNALS), ignore))
    faulthandler.enable()
    limit_memory(isolated_memory_mb() * 2**20)
    # The copy is not inherited by programs that a job starts.
    connection = Connection(os.dup(handle))
    os.close(handle)
    with contextlib.suppress(OSError):
        JobServer(connection).serve()
    # Does not wait for threads that a handler may have left behind.
    os._exit(0)


class JobServer:
    """Runs the jobs that the worker sends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rng = SystemRandom()
        self._runners: SimpleQueue[Runner] = SimpleQueue()
        self._event_loop = EventLoop(_start_thread)

    def serve(self) -> None:
        """Announce that this process is ready; run one job after another on this thread."""
        _start_thread("requests", self._receive)
        self._connection.send_bytes(encode({"ready": True}))
        while True:
            runner = self._runners.get()
            try:
                outcome = runner.run()
            except MemoryError:
                os._exit(EXIT_OUT_OF_MEMORY)
            if _ran_out_of_memory(outcome):
                # Any other allocation may have failed as well: the process cannot be used again.
                os._exit(EXIT_OUT_OF_MEMORY)
            self._connection.send_bytes(encode_outcome(outcome))
            refresh_connection(ask=True)

    def _receive(self) -> None:
        """Receive requests, also while a handler runs; exit when the worker is gone."""
        newest: Runner | None = None
        while True:
            try:
                message = json.loads(self._connection.recv_bytes())
            except (EOFError, OSError):
                os._exit(0)
            if "run" in message:
                newest = self._runner(decode_claim(message["run"]))
                self._runners.put(newest)
            elif newest is not None:
                newest.stop(StopReason(message["stop"]))

    def _runner(self, claim: Claim) -> Runner:
        declared = registry.find(claim.job_type)
        if declared is not None and declared.is_async:
            return EventLoopRunner(claim, Signals(), self._rng, self._event_loop)
        return ThreadRunner(claim, Signals(), self._rng)


def _ran_out_of_memory(outcome: Outcome) -> bool:
    if isinstance(outcome, Retry | DeadLettered):
        return outcome.failure.error_class == MemoryError.__name__
    return False


def _start_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()
