"""How the processes of one `runworker` take signals."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The parent blocks them and waits for them; its children inherit that until they unblock them.
WATCHED = (*STOP_SIGNALS, signal.SIGCHLD)


class StopRequests:
    """Calls `stop` at the first SIGTERM, and `end_now` at the second where nobody supervises.

    A supervised process ignores further ones: a signal to the whole process group arrives beside
    the supervisor's own, and only the supervisor decides when to kill.
    """

    def __init__(
        self, stop: Callable[[], None], *, supervised: bool, end_now: Callable[[], None]
    ) -> None:
        self._stop = stop
        self._end_now = end_now
        self._supervised = supervised
        # The handler may interrupt the main thread while it holds a lock that `stop` needs. Putting
        # into this queue is reentrant.
        self._received: SimpleQueue[int] = SimpleQueue()

    def receive(self, number: int, _: FrameType | None = None) -> None:
        """Take a signal, as its handler."""
        self._received.put(number)

    def serve(self) -> None:
        """Wait for signals, on a thread of its own."""
        self._received.get()
        self._stop()
        if not self._supervised:
            self._received.get()
            self._end_now()


def stop_on_sigterm(stop: Callable[[], None], *, supervised: bool) -> None:
    """Let SIGTERM stop this process, as `StopRequests` says."""
    requests = StopRequests(stop, supervised=supervised, end_now=lambda: os._exit(1))
    threading.Thread(target=requests.serve, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, requests.receive)
    # Ctrl-C reaches the whole group; the supervisor passes it on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
