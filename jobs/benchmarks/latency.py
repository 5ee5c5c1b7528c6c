"""`bench_queue latency`: how soon an idle worker starts a job, and what it costs while idle."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from django.db import connection

from jobs.benchmarks import rows
from jobs.benchmarks.firms import BenchmarkFirms
from jobs.benchmarks.measures import percentile
from jobs.benchmarks.scenario import Figures, Plan, Scenario
from jobs.benchmarks.workers import serving
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.queue import enqueue

# Seconds between two jobs: long enough for the worker to be idle, random against its intervals.
GAPS = (0.03, 0.25)
# The idle worker is watched for this long, once its start is over.
WATCH_SECONDS = 10.0
SETTLING_SECONDS = 2.0
# With fewer jobs than this, it is watched for less.
JOBS_FOR_ALL_OF_IT = 100


class Latency(Scenario):
    """Enqueues jobs for idle workers, one at a time."""

    name = "latency"
    measures = (
        "Idle workers get one job at a time, at random moments. p50 and p99 run from the insert"
        " to the start of the handler; the table has the way to the claim as well, the share of a"
        " core that a worker takes while idle, and the transactions per second of the whole"
        " database meanwhile."
    )
    has_workers = True
    default_jobs = 100
    default_firms = 10
    default_concurrency = 10

    def measure(self, plan: Plan, bench_firms: BenchmarkFirms) -> Figures:
        """Watch the idle workers, then enqueue."""
        firms = bench_firms.make(plan.firms)
        rng = SystemRandom()
        with serving(plan) as workers:
            point = _watch(workers.pids, min(plan.jobs / JOBS_FOR_ALL_OF_IT, 1.0))
            for number in range(plan.jobs):
                time.sleep(rng.uniform(*GAPS))
                enqueue(BENCH_JOB_TYPE, firm=firms[number % len(firms)])
            workers.wait_until_settled(firms, plan.jobs)
        pick_ups = rows.pick_ups(firms)
        claimed = [seconds * 1_000 for seconds, _ in pick_ups]
        started = [seconds * 1_000 for _, seconds in pick_ups]
        point |= {
            "claimed_p50_ms": percentile(claimed, 50),
            "claimed_p99_ms": percentile(claimed, 99),
            "started_max_ms": max(started),
        }
        return Figures(
            p50_ms=percentile(started, 50), p99_ms=percentile(started, 99), points=[point]
        )


def _watch(pids: Sequence[int], effort: float) -> dict[str, object]:
    """Return what idle workers cost; `effort`, at most 1, shortens the watch."""
    time.sleep(SETTLING_SECONDS * effort)
    transactions, processor = _transactions(), _processor_seconds(pids)
    begun = time.monotonic()
    time.sleep(WATCH_SECONDS * effort)
    seconds = time.monotonic() - begun
    transactions_after, processor_after = _transactions(), _processor_seconds(pids)
    cost: dict[str, object] = {
        "idle_seconds": seconds,
        "idle_cpu_share": None,
        "idle_transactions_per_second": None,
    }
    if processor is not None and processor_after is not None:
        cost["idle_cpu_share"] = (processor_after - processor) / seconds / len(pids)
    if transactions is not None and transactions_after is not None:
        # One of them read the counter.
        count = max(transactions_after - transactions - 1, 0)
        cost["idle_transactions_per_second"] = count / seconds
    return cost


def _transactions() -> int | None:
    """Return how many transactions this database has seen, None where nobody counts them."""
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database"
            " WHERE datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def _processor_seconds(pids: Sequence[int]) -> float | None:
    """Return the time these processes have spent on processors, None where /proc is not there."""
    try:
        stats = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii") for pid in pids]
    except OSError:
        return None
    # The name in brackets may hold spaces; user and system time are fields 14 and 15.
    ticks = sum(sum(map(int, stat.rpartition(")")[2].split()[11:13])) for stat in stats)
    return ticks / os.sysconf("SC_CLK_TCK")
