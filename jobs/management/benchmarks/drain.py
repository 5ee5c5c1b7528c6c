"""`bench_queue drain`: jobs of many firms that write 24 bytes, run by real workers and by a loop of bare SQL."""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from django.db import connection

from jobs.engine.dialects.base import CLAIM_COLUMNS
from jobs.engine.transactions import fetch, reading
from jobs.engine.wakeup import main_conninfo, wake
from jobs.errors import BenchmarkFailed
from jobs.job_handlers import BENCH_WRITE_JOB_TYPE
from jobs.management.benchmarks import raw, rows
from jobs.management.benchmarks.firms import clear, make_firms
from jobs.management.benchmarks.scenario import Figures, Plan
from jobs.management.benchmarks.workers import serving
from jobs.states import Category

KIND = rows.Kind(job_type=BENCH_WRITE_JOB_TYPE)

PROC = Path("/proc")
_SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)


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


def processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor time these processes have used; those that are gone count as 0."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            # After the name, which may contain anything: user and system time are fields 14 and 15.
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def context_switches(pids: Iterable[int]) -> int:
    """Return how often the processor switched from threads of these processes to others."""
    switches = 0
    for pid in pids:
        for status in (PROC / str(pid) / "task").glob("*/status"):
            with suppress(OSError):
                switches += sum(map(int, _SWITCHES.findall(status.read_text())))
    return switches


def server_pids() -> list[int]:
    """Return the server's processes but this connection's; none if the server runs elsewhere."""
    if connection.vendor != "postgresql":
        return []
    rows = reading(
        lambda: fetch("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()", [])
    )
    return [pid for (pid,) in rows if _is_postgres(pid)]


def _is_postgres(pid: int) -> bool:
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().startswith("postgres")
    return False
