"""Processes of `manage.py runworker`: started, watched, frozen and killed."""

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

# For tests that wait for the end of a lease: short, but no worker looks dead on a busy machine.
SHORT_LEASE_SECONDS = 2.0
# For all other tests: longer than any test takes.
LONG_LEASE_SECONDS = 120.0
# Failed attempts are logged with their tracebacks to these loggers, as JSON lines name them.
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
    """Return the environment of a process that uses the test's database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.support.worker_settings",
        "DATABASE_URL": database_url(),
        "LISTEN_DATABASE_URL": settings.LISTEN_DATABASE_URL,
        "VAR_DIR": str(settings.VAR_DIR),
        **more,
    }


class WorkerProcess:
    """One `runworker`, and the processes that it has started."""

    def __init__(
        self, arguments: list[str], environment: dict[str, str], log: Path, *, terminal: bool
    ) -> None:
        self._log = log
        self._keyboard, screen = os.openpty() if terminal else (None, None)
        command = [sys.executable, "manage.py", "runworker", *arguments]
        if terminal:
            # The group in the foreground of a terminal has to open it as its standard input.
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
        """The session of the worker's processes, as the journal has it."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def log(self) -> str:
        """Return what the worker has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def said(self) -> str:
        """Return the end of the worker's output without the lines of attempts, for messages."""
        lines = [line for line in self.log().splitlines() if '"job.attempt_' not in line]
        return "\n".join(lines)[-SAID_LENGTH:]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the worker's log lines of this event."""
        lines = (json.loads(line) for line in self.log().splitlines() if line.endswith("}"))
        return [line for line in lines if line["event"] == name]

    def wait_for(self, event: str, *, timeout: float = 90.0) -> dict[str, Any]:
        """Wait until the worker has logged the event; return the first line."""
        try:
            return wait_until(
                lambda: self.events(event), f"{event} in a worker's log", timeout=timeout
            )[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; it has printed:\n{self.said()}") from None

    def wait_until_started(self) -> WorkerProcess:
        """Wait until the worker serves jobs."""
        self.wait_for("worker.started")
        return self

    def wait_for_all(self, event: str) -> list[dict[str, Any]]:
        """Wait until the worker has logged the event; return all lines of it."""
        self.wait_for(event)
        return self.events(event)

    def wait_for_exit(self, timeout: float) -> int:
        """Wait until the worker ends; return its exit code.

        Raises:
            AssertionError: the worker was still running after `timeout` seconds.
        """
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"no exit within {timeout:g} s; it has printed:\n{self.said()}"
            ) from None

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started, as a service manager does."""
        self._process.send_signal(number)

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C in the worker's terminal."""
        assert self._keyboard is not None
        os.write(self._keyboard, b"\x03")

    def lose_terminal(self) -> None:
        """Close the worker's terminal, as when its window is closed or its connection is cut."""
        assert self._keyboard is not None
        os.close(self._keyboard)

    def tell_group(self, number: signal.Signals) -> None:
        """Send a signal to the worker's process group, as service managers and `timeout` do."""
        self._signal_all(number)

    def kill(self) -> None:
        """Kill the worker and all processes that it has started."""
        self._signal_all(signal.SIGKILL)
        self._process.wait(10)

    def freeze(self) -> None:
        """Stop the worker and all processes it has started, while none is in a transaction."""
        wait_until(self._frozen_between_writes, "a moment outside every write of the worker")

    def thaw(self) -> None:
        """Let the worker go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _has_stopped(self) -> bool:
        """Say whether no thread of the process group runs; always true without /proc."""
        for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # The fields behind the name, which may contain anything: state, parent, group.
                state, _, group, *_ = stat.read_text("ascii", "replace").rpartition(")")[2].split()
                if int(group) == self._process.pid and state not in "TZX":
                    return False
        return True

    def _frozen_between_writes(self) -> bool:
        self._signal_all(signal.SIGSTOP)
        # The signal may not have reached every thread yet.
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
        """Start a worker, perhaps in a `terminal` of its own; `environment` is added to this one's.

        A `supervised` worker runs under its supervisor, as in production; otherwise it runs alone.
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
        """Start several workers at once; return when all of them serve jobs."""
        workers = [
            self.start(*arguments, lease_seconds=lease_seconds, **environment) for _ in range(count)
        ]
        return [worker.wait_until_started() for worker in workers]

    def stop(self) -> None:
        """Tell all workers to end, and wait until they have ended."""
        working = [worker for worker in self._workers if worker.alive]
        for worker in working:
            worker.tell(signal.SIGTERM)
        for worker in working:
            code = worker.wait_for_exit(90)
            assert code == 0, f"exit code {code}; it has printed:\n{worker.said()}"

    def kill(self) -> None:
        """Kill all workers that are left."""
        for worker in self._workers:
            worker.kill()

    def assert_no_traceback(self) -> None:
        """Check that no worker has printed a traceback, except those of handlers' errors."""
        for worker in self._workers:
            for line in worker.log().splitlines():
                if not any(logger in line for logger in OF_HANDLERS):
                    assert "Traceback" not in line, worker.said()


def _database_is_free() -> bool:
    """Say whether no other session is in a transaction."""
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
