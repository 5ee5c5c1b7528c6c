"""What a process that runs jobs for another one does first."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Let this process be killed when its parent dies, or now, when that was not `parent` any more.

    Does nothing where it is not Linux.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = parent or os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def limit_memory(limit: int) -> None:
    """Limit this process's address space to so many bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # Where the machine itself runs out, the kernel should end this process first.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
