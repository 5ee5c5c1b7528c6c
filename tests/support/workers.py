"""Real `manage.py runworker` processes: started, watched, frozen and killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection

from tests.support.databases import database_url
from tests.support.paths import ROOT
from tests.support.waiting import wait_until

# For tests that wait for the end of a lease: short, but a busy machine must not make anybody look dead.
SHORT_LEASE_SECONDS = 2.0
# For all others: longer than any test takes.
LONG_LEASE_SECONDS = 120.0
# The loggers, as JSON lines name them, to which failed attempts go with their tracebacks.
OF_HANDLERS = (
    '"logger":"jobs.attempts"',
    '"logger":"django_tasks"',
    '"logger":"django.tasks"',
)
SAID_LENGTH = 4000
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execv(sys.argv[1], sys.argv[1:])"
)


def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `manage.py` with these arguments on the test's database."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment_of_workers(),
        capture_output=True,
        text=True,
        timeout=90,
    )


def environment_of_workers(**more: str) -> dict[str, str]:
    """Return the environment of a process on the test's database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings",
        "DATABASE_URL": database_url(),
        "LISTEN_DATABASE_URL": settings.LISTEN_DATABASE_URL,
        "VAR_DIR": str(settings.VAR_DIR),
        **more,
    }


class WorkerProcess:
    """One `runworker` and whatever processes it has started itself."""

    def __init__(
        self, arguments: list[str], environment: dict[str, str], log: Path, *, terminal: bool
    ) -> None:
        self._log = log
        self._keyboard, screen = os.openpty() if terminal else (None, None)
        command = [sys.executable, "manage.py", "runworker", *arguments]
        if terminal:
            # What becomes the terminal's foreground group has to open it as its standard input.
            command = [sys.executable, "-c", OWN_TERMINAL, *command]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=screen,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def session(self) -> int:
        """The session of its processes, as the journal notes it."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def log(self) -> str:
        """Return what it has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def said(self) -> str:
        """Return the end of its output, without the lines of attempts: for messages."""
        lines = [line for line in self.log().splitlines() if '"job.attempt_' not in line]
        return "\n".join(lines)[-SAID_LENGTH:]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return its log lines of one event."""
        lines = (json.loads(line) for line in self.log().splitlines() if line.endswith("}"))
        return [line for line in lines if line["event"] == name]

    def wait_for(self, event: str, *, timeout: float = 90.0) -> dict[str, Any]:
        """Wait until it has logged an event; return the first of them."""
        try:
            return wait_until(
                lambda: self.events(event), f"{event} in a worker's log", timeout=timeout
            )[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; it has printed:\n{self.said()}") from None

    def wait_until_started(self) -> WorkerProcess:
        """Wait until it serves."""
        self.wait_for("worker.started")
        return self

    def wait_for_all(self, event: str) -> list[dict[str, Any]]:
        """Wait until it has logged an event; return all there are by then."""
        self.wait_for(event)
        return self.events(event)

    def wait_for_exit(self, timeout: float) -> int:
        """Wait until it ends; return its exit code.

        Raises:
            AssertionError: it was still there after `timeout` seconds.
        """
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"no exit within {timeout:g} s; it has printed:\n{self.said()}"
            ) from None

    def tell(self, number: signal.Signals) -> None:
        """Send a signal as a supervisor does: to the process that was started."""
        self._process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C in its terminal."""
        assert self._keyboard is not None
        os.write(self._keyboard, b"\x03")

    def lose_terminal(self) -> None:
        """Close its terminal, as when the window is closed or the connection is cut."""
        assert self._keyboard is not None
        os.close(self._keyboard)

    def tell_group(self, number: signal.Signals) -> None:
        """Send a signal to its whole process group, as service managers and `timeout` do."""
        self._signal_all(number)

    def kill(self) -> None:
        """End it, and all it has started, without a chance to tidy up."""
        self._signal_all(signal.SIGKILL)
        self._process.wait(10)

    def freeze(self) -> None:
        """Stop it and all it has started, at a moment when it is in no transaction."""
        wait_until(self._frozen_between_writes, "a moment outside every write of the worker")

    def thaw(self) -> None:
        """Let it go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _has_stopped(self) -> bool:
        """Say whether no thread of its process group runs; true where there is no /proc."""
        for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # Behind the name, which may contain anything: state, parent, group.
                state, _, group, *_ = stat.read_text("ascii", "replace").rpartition(")")[2].split()
                if int(group) == self._process.pid and state not in "TZX":
                    return False
        return True

    def _frozen_between_writes(self) -> bool:
        self._signal_all(signal.SIGSTOP)
        # The signal is sent before it has reached every thread.
        wait_until(self._has_stopped, "its threads to stop")
        if _database_is_free():
            return True
        self.thaw()
        return False


class Fleet:
    """The workers of one test, on the test's database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workers: list[WorkerProcess] = []

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(self._workers)

    def start(
        self,
        *arguments: str,
        supervised: bool = False,
        terminal: bool = False,
        lease_seconds: float = LONG_LEASE_SECONDS,
        **environment: str,
    ) -> WorkerProcess:
        """Start a worker, in a `terminal` of its own or without one; `environment` is added to this.

        `supervised` starts it as people do, under its parent; without, it is a process by itself.
        """
        log = self._folder / f"worker-{len(self._workers)}.log"
        worker = WorkerProcess(
            [*arguments] if supervised else [*arguments, "--child"],
            environment_of_workers(
                LOG_FORMAT="json", JOB_LEASE_SECONDS=str(lease_seconds), **environment
            ),
            log,
            terminal=terminal,
        )
        self._workers.append(worker)
        return worker

    def start_many(
        self,
        count: int,
        *arguments: str,
        lease_seconds: float = LONG_LEASE_SECONDS,
        **environment: str,
    ) -> list[WorkerProcess]:
        """Start several at once and wait until all of them serve."""
        workers = [
            self.start(*arguments, lease_seconds=lease_seconds, **environment) for _ in range(count)
        ]
        return [worker.wait_until_started() for worker in workers]

    def stop(self) -> None:
        """Tell all of them to end, and wait until they have."""
        working = [worker for worker in self._workers if worker.alive]
        for worker in working:
            worker.tell(signal.SIGTERM)
        for worker in working:
            code = worker.wait_for_exit(90)
            assert code == 0, f"exit code {code}; it has printed:\n{worker.said()}"

    def kill(self) -> None:
        """End whatever is left."""
        for worker in self._workers:
            worker.kill()

    def assert_no_traceback(self) -> None:
        """Check that no worker has printed a traceback, but for the log of what handlers raised."""
        for worker in self._workers:
            for line in worker.log().splitlines():
                if not any(logger in line for logger in OF_HANDLERS):
                    assert "Traceback" not in line, worker.said()


def _database_is_free() -> bool:
    """Say whether no other session is in the middle of a write."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state <> 'idle'"
            )
            return bool(cursor.fetchone()[0] == 0)
        cursor.execute("PRAGMA busy_timeout = 200")
        try:
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("ROLLBACK")
        except OperationalError:
            return False
        finally:
            cursor.execute("PRAGMA busy_timeout = 20000")
    return True
