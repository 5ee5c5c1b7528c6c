"""Runs `runworker` beside the web process, for hosts on which only one process can be started.

With EMBEDDED_WORKER set, the first web process on a machine to get a lock in VAR_DIR starts the
worker as a separate process, so that no handler can end the web process. The other web processes
wait for the lock: if the first one ends, its worker is told to end, and another web process starts
one. With several machines each has a worker, which is fine, as any number of workers may run.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import structlog
from django.conf import settings

LOCK_FILE = "embedded-worker.lock"
# Seconds between two tries to get the lock.
RETRY_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
PR_SET_PDEATHSIG = 1

_log = structlog.get_logger("config")


def start() -> None:
    """If EMBEDDED_WORKER is set, run the worker for as long as this process runs."""
    if settings.EMBEDDED_WORKER:
        EmbeddedWorker(Path(settings.VAR_DIR)).start()


class EmbeddedWorker:
    """The worker of this process, which is started when the process gets the machine's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._ends = threading.Event()

    def start(self) -> None:
        """Wait for the lock, and then keep the worker running, in a thread."""
        atexit.register(self.stop)
        threading.Thread(target=self._run, name="embedded-worker", daemon=True).start()

    def stop(self) -> None:
        """Tell the worker to end; it finishes its running jobs within its grace period."""
        self._ends.set()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def _run(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Never closed, so that the lock lasts as long as the process.
        lock = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        while not self._is_locked(lock):
            if self._ends.wait(RETRY_SECONDS):
                return
        self._keep_running()

    @staticmethod
    def _is_locked(lock: int) -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def _keep_running(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._ends.is_set():
            # Started in this lasting thread, because the kernel signals the worker as soon as the
            # thread that started it ends.
            self._process = subprocess.Popen([sys.executable, "-m", "config.embedded_worker"])
            code = self._process.wait()
            if self._ends.wait(pause):
                return
            _log.warning("embedded_worker.restarted", exit_code=code)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def main() -> None:
    """Become `runworker`, which is told to end when the web process is gone."""
    parent = os.getppid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return
    manage = Path(__file__).resolve().parent.parent / "manage.py"
    os.execv(sys.executable, [sys.executable, str(manage), "runworker", *sys.argv[1:]])  # noqa: S606 - our own command


if __name__ == "__main__":
    main()
