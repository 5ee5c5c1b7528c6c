"""`bench_queue drain`: jobs of many firms that write 24 bytes, run by real workers and by a loop of bare SQL."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from statistics import median

from django.db import connection

from jobs.engine.dialects.base import CLAIM_COLUMNS
from jobs.engine.wakeup import main_conninfo, wake
from jobs.errors import BenchmarkFailed
from jobs.job_handlers import BENCH_WRITE_JOB_TYPE
from jobs.management.benchmarks import raw, rows
from jobs.management.benchmarks.firms import clear, make_firms
from jobs.management.benchmarks.processor import (
    PROC,
    context_switches,
    processor_seconds,
    server_pids,
)
from jobs.management.benchmarks.scenario import Figures, Plan
from jobs.management.benchmarks.workers import serving
from jobs.states import Category

KIND = rows.Kind(job_type=BENCH_WRITE_JOB_TYPE)


def measure_drain(plan: Plan) -> Figures:
    """Alternate between workers and the bare loop, on equal jobs."""
    firms = make_firms(plan.firms)
    jobs = rows.spread(plan.jobs, firms)
    points = []
    for number in range(1, plan.rounds + 1):
        with serving(plan) as workers:
            rows.fill(jobs, KIND)
            before = _spent(workers.pids)
            wake({Category.MAINTENANCE})
            workers.wait_until_settled(plan.jobs)
            after = _spent(workers.pids)
        seconds, rate = rows.speed(plan.jobs)
        clear()
        rows.fill(jobs, KIND)
        _run_bare_loop(firms, plan.processes)
        raw_seconds, raw_rate = rows.speed(plan.jobs)
        clear()
        points.append(
            {
                "round": number,
                "seconds": seconds,
                "jobs_per_second": rate,
                "raw_seconds": raw_seconds,
                "raw_jobs_per_second": raw_rate,
                "ratio": rate / raw_rate,
                **{name: (after[name] - before[name]) / plan.jobs for name in after},
            }
        )
    medians = {
        name: median(point[name] for point in points)
        for name in ("seconds", "jobs_per_second", "raw_jobs_per_second")
    }
    ratio = medians["jobs_per_second"] / medians["raw_jobs_per_second"]
    return {**medians, "ratio": ratio, "points": points}


def _spent(workers: Sequence[int]) -> dict[str, float]:
    """Return what workers and server have used so far, by the names of the figures per job.

    Figures that cannot be read are left out: without /proc, or if the server is on another machine.
    """
    server = server_pids()
    spent: dict[str, float] = {}
    if PROC.exists():
        spent["worker_us"] = processor_seconds(workers) * 1e6
        spent["switches"] = context_switches(workers)
    if server:
        spent["server_us"] = processor_seconds(server) * 1e6
    return spent


def _run_bare_loop(firms: Sequence[int], processes: int) -> None:
    """Claim and complete every job of these firms; each process begins with firms of its own.

    Raises:
        BenchmarkFailed: a process failed.
    """
    # Spawned: a forked process would share this one's connection.
    fresh = multiprocessing.get_context("spawn")
    ready = fresh.Barrier(processes)
    starts = [firms[len(firms) * number // processes] for number in range(processes)]
    started = [
        fresh.Process(target=raw.run, args=(_loop(firms[0], start), ready), daemon=True)
        for start in starts
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
        raise BenchmarkFailed("a process of the raw loop failed; its error is printed above")


def _loop(first: int, start: int) -> raw.Loop:
    if connection.vendor == "sqlite":
        columns = ", ".join(CLAIM_COLUMNS)
        address = raw.sqlite_address(connection)
    else:
        columns = ", ".join(
            "j.payload::text" if name == "payload" else f"j.{name}" for name in CLAIM_COLUMNS
        )
        address = main_conninfo(), ""
    return raw.Loop(connection.vendor, *address, BENCH_WRITE_JOB_TYPE, columns, first, start)
