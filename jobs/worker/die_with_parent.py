"""Ties a worker process to its parent's life."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """End this process at once when its parent dies, so that killing the parent kills the worker.

    Where the system has no such call (all but Linux), leases still end the work of an orphan only
    when it ends itself.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
