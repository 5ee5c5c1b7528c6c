"""Ends processes that handlers started, once their worker process has ended.

Otherwise a process that a job has left running would run beside the job's next attempt. On Linux
the supervisor becomes the parent of such processes; on other systems it does not know them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 2.0
CHECK_SECONDS = 0.02


class Orphans:
    """The children of this process, which has one thread, beside those that it started itself.

    A process that left its worker while the worker lived, such as a daemon, is left alone.
    """

    def __init__(self) -> None:
        self._left_alone: AbstractSet[int] = set()
        self._ending = False

    def adopt(self) -> None:
        """Become the parent of this process's descendants whose own parent ends."""
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)

    def worker_ended(self) -> None:
        """Let `observe` kill the orphans that exist now, and those that these leave."""
        self._ending = True

    def observe(self, own: AbstractSet[int]) -> None:
        """Reap and kill; call it regularly. `own` are the children that this process started."""
        found = _children() - own
        running = {pid for pid in found if _is_running(pid)}
        if not self._ending:
            self._left_alone = running
            return
        killed = {pid for pid in running - self._left_alone if _kill(pid)}
        # An orphan that has just ended may have left others.
        self._ending = bool(killed) or running != found

    def end(self) -> None:
        """Kill the orphans of the last worker, once this process has no other children."""
        self.worker_ended()
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            self.observe(set())
            if not self._ending:
                return
            time.sleep(CHECK_SECONDS)


def _children() -> set[int]:
    with suppress(OSError):
        return {
            int(pid)
            for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
        }
    return set()


def _is_running(pid: int) -> bool:
    """Say whether the child has not ended; one that has is reaped."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    return False


def _kill(pid: int) -> bool:
    """Kill the child; False if it runs as another user, whom this process may not signal."""
    with suppress(PermissionError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False
