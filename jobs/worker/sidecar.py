"""The sidecar: a fork of the supervisor for the work that needs threads or the database.

It takes back the jobs of a dead worker process, and extends the lease of one that shows no life. It
also tells whether it got a signal: if so, the signal was sent to the whole process group, because
nobody sends one to the sidecar alone.
"""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from random import SystemRandom
from uuid import UUID

from django.db import connection, connections

from jobs.conf import lease_seconds
from jobs.engine.lease import heartbeat
from jobs.engine.rescue import rescue_reported
from jobs.execution.child_process import die_with_parent
from jobs.execution.events import Event, emit
from jobs.worker.child import flush_streams
from jobs.worker.maintenance import finish_rescue
from jobs.worker.running_slots import RunningSlots
from jobs.worker.signals import STOP_SIGNALS
from jobs.worker.state import AWAY, Outage, refresh_connection

# Signals within this time count as one: `timeout` sends one to its child, then one to the group.
SAME_SIGNAL_SECONDS = 0.4
ANSWER_SECONDS = 2.0
END_SECONDS = 3.0
ID_BYTES = 16
SIGNAL_QUESTION = b"?"
_TIME = struct.Struct("d")


class Sidecar:
    """The supervisor's end of the sidecar, with the children's slots; `pid` is 0 if none runs."""

    def __init__(self, slots: Sequence[RunningSlots]) -> None:
        self._slots = slots
        self.pid = 0
        self._connection: Connection | None = None
        # The rescues of the last lease, and when they were asked for (monotonic).
        self._rescues: list[tuple[float, bytes]] = []

    def start(self) -> None:
        """Fork the sidecar, unless it runs. This process must have no threads.

        Raises:
            OSError: the system has no room for another process.
        """
        if self.pid and os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            return
        self.pid = 0
        ours, theirs = Pipe()
        flush_streams()
        self.pid = os.fork()
        if not self.pid:
            ours.close()
            try:
                _Server(theirs, self._slots).serve()
            finally:
                os._exit(1)
        theirs.close()
        self._connection = ours
        # The sidecar before this one may not have finished them; to finish one twice changes nothing.
        for _, message in self._recent_rescues():
            self._send(message)

    def leave(self) -> None:
        """Close the connection, in a fork that is no supervisor."""
        if self._connection is not None:
            self._connection.close()

    def heartbeat(self, worker_id: UUID) -> None:
        """Extend the lease of this worker."""
        self._send(worker_id.bytes)

    def rescue(self, child: int, worker_id: UUID, running: Sequence[int]) -> None:
        """Take back the jobs of this worker, which is dead; `running` are the tokens it ran."""
        message = worker_id.bytes + struct.pack(f"{len(running) + 1}q", child, *running)
        self._rescues = [*self._recent_rescues(), (time.monotonic(), message)]
        self._send(message)

    def _recent_rescues(self) -> list[tuple[float, bytes]]:
        """Return the rescues that the end of the lease has not made needless."""
        begin = time.monotonic() - lease_seconds()
        return [(at, message) for at, message in self._rescues if at > begin]

    def got_signal_at(self, received_at: float) -> bool:
        """Say whether the sidecar got a signal at about this monotonic time, too."""
        for pause in (0.0, SAME_SIGNAL_SECONDS / 2):
            time.sleep(pause)
            if self._last_signal() > received_at - SAME_SIGNAL_SECONDS:
                return True
        return False

    def _last_signal(self) -> float:
        """Ask when the sidecar last got a signal."""
        with suppress(EOFError, OSError):
            if self._connection is not None:
                self._connection.send_bytes(SIGNAL_QUESTION)
                if self._connection.poll(ANSWER_SECONDS):
                    (at,) = _TIME.unpack(self._connection.recv_bytes())
                    return float(at)
        return -inf

    def end(self) -> None:
        """Let the sidecar finish its requests, for `END_SECONDS` at most."""
        if self._connection is None or not self.pid:
            return
        self._connection.close()
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            if os.waitpid(self.pid, os.WNOHANG) != (0, 0):
                return
            time.sleep(0.01)
        os.kill(self.pid, signal.SIGKILL)

    def _send(self, message: bytes) -> None:
        # If the sidecar is gone, the lease ends and workers rescue; the supervisor forks another.
        with suppress(OSError):
            if self._connection is not None:
                self._connection.send_bytes(message)


class _Server:
    """The process itself: one thread waits for signals, one for requests, one for the database."""

    def __init__(self, connection_to_parent: Connection, slots: Sequence[RunningSlots]) -> None:
        self._parent = connection_to_parent
        self._slots = slots
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._ended = threading.Event()
        self._signal_at = -inf

    def serve(self) -> None:
        """Serve until the supervisor closes the connection."""
        die_with_parent()
        connections.close_all()
        for work in (self._receive, self._work):
            threading.Thread(target=work, daemon=True).start()
        while True:
            signal.sigwaitinfo(STOP_SIGNALS)
            self._signal_at = time.monotonic()

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                request = self._parent.recv_bytes()
                if request == SIGNAL_QUESTION:
                    # The thread that waits for signals may not have had its turn yet.
                    is_pending = signal.sigpending() & set(STOP_SIGNALS)
                    at = time.monotonic() if is_pending else self._signal_at
                    self._parent.send_bytes(_TIME.pack(at))
                else:
                    self._requests.put(request)
        self._ended.set()
        self._requests.put(None)

    def _work(self) -> None:
        """Serve requests, waiting out outages; once the supervisor is gone, try only once more."""
        outage = Outage(SystemRandom(), self._ended)
        rescues: list[bytes] = []
        while True:
            try:
                self._serve_requests(rescues)
                outage.over()
            except AWAY as error:
                outage.failed(error)
            except Exception as error:  # noqa: BLE001 - the next request may fare better
                emit(Event.MAINTENANCE_FAILED, task="sidecar", error_class=type(error).__name__)
                rescues.clear()
            if self._ended.is_set() and self._requests.empty():
                os._exit(0)

    def _serve_requests(self, rescues: list[bytes]) -> None:
        beats = self._collect(rescues)
        refresh_connection()
        for worker_id in beats:
            heartbeat(worker_id, None)
        while rescues:
            self._rescue(rescues[0])
            del rescues[0]
        # The sidecar is idle nearly all the time, so it keeps no connection open.
        connection.close()

    def _collect(self, rescues: list[bytes]) -> set[UUID]:
        """Take all requests, waiting for one if there is nothing to do; return the heartbeats."""
        beats: set[UUID] = set()
        while (not rescues and not beats) or not self._requests.empty():
            request = self._requests.get()
            if request is None:
                break
            if len(request) == ID_BYTES:
                beats.add(UUID(bytes=request))
            else:
                rescues.append(request)
        return beats

    def _rescue(self, request: bytes) -> None:
        child, *running = memoryview(request)[ID_BYTES:].cast("q")
        report = rescue_reported(UUID(bytes=request[:ID_BYTES]), running, SystemRandom())
        finish_rescue(report)
        self._slots[child].add_rescued(len(report.ended))
