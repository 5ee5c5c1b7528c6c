"""Real worker processes that serve the benchmark's jobs and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from django.db import connection

from jobs.engine.lease import deregister
from jobs.errors import BenchmarkFailed
from jobs.job_handlers import BENCH_JOB_TYPE, BENCH_WRITE_JOB_TYPE
from jobs.management.benchmarks import rows
from jobs.management.benchmarks.scenario import Plan
from jobs.models import Worker

COMMAND = "bench_queue"
POLL_SECONDS = 0.05
STOP_SECONDS = 45.0
# The benchmark gives up when no worker starts, or no job is settled, for this long.
STALL_SECONDS = 60.0
OUTPUT_LENGTH = 2000


@contextmanager
def serving(plan: Plan) -> Iterator[Workers]:
    """Yield registered workers, and stop them at the end.

    Raises:
        BenchmarkFailed: one of them did not start.
    """
    # The workers log to a file, like a service.
    with tempfile.TemporaryFile() as log:
        workers = Workers(plan, log)
        try:
            workers.wait_until_registered()
            yield workers
        except BaseException:
            # An interrupted statement of SQLite keeps its snapshot, and lets nothing be written.
            connection.close()
            raise
        finally:
            workers.stop()


class Workers:
    """The worker processes of one measurement."""

    def __init__(self, plan: Plan, log: IO[bytes]) -> None:
        self._log = log
        own = sys.orig_argv[1:]
        # Workers are started in the same way as this command was.
        program = own[: own.index(COMMAND)] if COMMAND in own else ["-m", "django"]
        command = [
            *(sys.executable, *program, "runworker"),
            *("--concurrency", str(plan.concurrency), "--job-type", BENCH_JOB_TYPE),
            *("--job-type", BENCH_WRITE_JOB_TYPE),
            # The options that `runworker` gives its children, so that they end with this process.
            *("--no-scheduler", "--child", str(os.getpid())),
        ]
        self._processes = [
            subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own command line
            for _ in range(plan.processes)
        ]
        self.pids = [process.pid for process in self._processes]
        self._rows = Worker.objects.filter(host=socket.gethostname(), pid__in=self.pids)
        # Rows with these process ids are left from dead processes.
        self._deregister()

    def wait_until_registered(self) -> None:
        """Wait until each has its row.

        Raises:
            BenchmarkFailed: one ended, or it took too long.
        """
        self._wait(self._rows.count, len(self.pids), "the start of the workers")

    def wait_until_settled(self, jobs: int) -> None:
        """Wait until this many jobs are settled.

        Raises:
            BenchmarkFailed: a worker ended, or no job was settled for a while.
        """
        self._wait(rows.settled, jobs, "the next settled job; is something paused?")

    def stop(self) -> None:
        """Stop them in order, and kill those that do not stop."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        for process in self._processes:
            try:
                process.wait(max(until - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # Killed workers could not deregister themselves.
        self._deregister()

    def _wait(self, count: Callable[[], int], wanted: int, what: str) -> None:
        """Wait until the count is reached; each step forward gives it more time."""
        counted = 0
        until = time.monotonic() + STALL_SECONDS
        while counted < wanted:
            if any(process.poll() is not None for process in self._processes):
                self._log.seek(0)
                said = self._log.read().decode(errors="replace")[-OUTPUT_LENGTH:]
                raise BenchmarkFailed(f"a worker has ended; the workers said:\n{said}")
            if time.monotonic() > until:
                raise BenchmarkFailed(f"waited too long for {what}")
            time.sleep(POLL_SECONDS)
            before, counted = counted, count()
            if counted > before:
                until = time.monotonic() + STALL_SECONDS

    def _deregister(self) -> None:
        for worker in self._rows.all():
            deregister(worker.pk)
