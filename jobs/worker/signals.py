"""How the processes of one `runworker` take signals, and end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The parent blocks them and waits for them; its children inherit that until they unblock them.
WATCHED = (*STOP_SIGNALS, signal.SIGCHLD)
PR_SET_PDEATHSIG = 1


def stop_on_sigterm(stop: Callable[[], None], *, supervised: bool) -> None:
    """Call `stop` at the first SIGTERM, on a thread.

    A supervised process ignores further ones: a signal to the whole process group arrives beside
    the parent's own, and only the parent decides when to kill. Any other ends at once at the second.
    """
    # The handler may interrupt the main thread while it holds a lock that `stop` needs. Putting
    # into this queue is reentrant.
    received: SimpleQueue[int] = SimpleQueue()

    def receive(number: int, _: FrameType | None) -> None:
        received.put(number)

    def wait() -> None:
        received.get()
        stop()
        if not supervised:
            received.get()
            os._exit(1)

    threading.Thread(target=wait, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, receive)
    # Ctrl-C reaches the whole group; the parent passes it on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)


def die_with_parent() -> None:
    """Let this process be killed when its parent dies. Does nothing where it is not Linux."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
