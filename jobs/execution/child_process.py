"""Sets up processes that run jobs for another process, and ends those that a handler forked."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Have this process killed when its parent dies; or now, if `parent` is its parent no more.

    Does nothing on systems other than Linux.
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
    # If the machine itself runs out of memory, the kernel should end this process first.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def end_if_forked(process: int, error: BaseException | None = None) -> None:
    """End this process if a handler that began in `process` forked it, and returned in the fork.

    The fork has copies of all that its parent is about to run, and would run it as well.
    """
    if os.getpid() == process:
        return
    if error is None:
        os._exit(0)
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        os._exit((error.code or 0) & 0xFF)
    # Not by way of sys.stderr, whose lock another thread may have held at the fork.
    with contextlib.suppress(BaseException):
        raised = "".join(traceback.format_exception_only(error))
        text = f"a process that a handler forked ended with {raised}"
        os.write(2, text.encode(errors="backslashreplace"))
    os._exit(1)
