"""Runs the bare loop in processes of its own, on jobs that are ready."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence

from django.db import connection

from jobs.benchmarks.raw.address import sqlite_address
from jobs.benchmarks.raw.postgresql import PostgresLoop
from jobs.benchmarks.raw.process import Loop, run
from jobs.benchmarks.raw.sqlite import SqliteLoop
from jobs.engine.dialects.base import CLAIM_COLUMNS
from jobs.engine.wakeup import main_conninfo
from jobs.errors import BenchmarkFailed
from jobs.job_handlers import BENCH_JOB_TYPE


def work_off(firms: Sequence[int], processes: int) -> None:
    """Claim and complete every job of these firms; each process begins with firms of its own.

    Raises:
        BenchmarkFailed: a process failed.
    """
    # Spawned: a forked process would share this one's connection.
    fresh = multiprocessing.get_context("spawn")
    ready = fresh.Barrier(processes)
    started = [
        fresh.Process(target=run, args=(loop, ready), daemon=True)
        for loop in _loops(firms, processes)
    ]
    try:
        for process in started:
            process.start()
        for process in started:
            process.join()
    finally:
        for process in started:
            if process.is_alive():
                process.terminate()
                process.join()
    if any(process.exitcode for process in started):
        raise BenchmarkFailed("a process of the bare loop has fallen; it said why above")


def _loops(firms: Sequence[int], processes: int) -> list[Loop]:
    starts = [firms[len(firms) * number // processes] for number in range(processes)]
    if connection.vendor == "sqlite":
        columns = ", ".join(CLAIM_COLUMNS)
        file = sqlite_address()
        return [
            SqliteLoop(file.path, file.pragmas, BENCH_JOB_TYPE, columns, firms[0], start)
            for start in starts
        ]
    columns = ", ".join(
        "j.payload::text" if name == "payload" else f"j.{name}" for name in CLAIM_COLUMNS
    )
    address = main_conninfo()
    return [PostgresLoop(address, BENCH_JOB_TYPE, columns, firms[0], start) for start in starts]
