"""`bench_queue latency`: how soon an idle worker starts a job, and what it costs while idle."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom

from django.db import connection

from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.management.benchmarks import rows
from jobs.management.benchmarks.firms import make_firms
from jobs.management.benchmarks.scenario import Figures, Plan, percentile
from jobs.management.benchmarks.workers import serving
from jobs.queue import enqueue

# Seconds between two jobs: long enough for the worker to become idle, and random, so that they do
# not keep step with its intervals.
GAPS = (0.03, 0.25)
# The idle worker is watched for this long, once its start is over.
WATCH_SECONDS = 10.0
SETTLING_SECONDS = 2.0
# With fewer jobs than this, the worker is watched for a shorter time.
JOBS_FOR_ALL_OF_IT = 100


def measure_latency(plan: Plan) -> Figures:
    """Watch the idle workers, then enqueue jobs one at a time."""
    firms = make_firms(plan.firms)
    rng = SystemRandom()
    with serving(plan) as workers:
        point = _watch(workers.pids, min(plan.jobs / JOBS_FOR_ALL_OF_IT, 1.0))
        for number in range(plan.jobs):
            time.sleep(rng.uniform(*GAPS))
            enqueue(BENCH_JOB_TYPE, firm=firms[number % len(firms)])
        workers.wait_until_settled(plan.jobs)
    times = rows.completed("created_at", "claimed_at", "started_at")
    claimed = [(claim - insert).total_seconds() * 1_000 for insert, claim, _ in times]
    started = [(start - insert).total_seconds() * 1_000 for insert, _, start in times]
    point |= {
        "claimed_p50_ms": percentile(claimed, 50),
        "claimed_p99_ms": percentile(claimed, 99),
        "started_max_ms": max(started),
    }
    return {
        "p50_ms": percentile(started, 50),
        "p99_ms": percentile(started, 99),
        "points": [point],
    }


def _watch(pids: Sequence[int], effort: float) -> dict[str, float | None]:
    """Return what idle workers cost; `effort`, at most 1, shortens the watch."""
    time.sleep(SETTLING_SECONDS * effort)
    transactions, processor = _transactions(), _processor_seconds(pids)
    begun = time.monotonic()
    time.sleep(WATCH_SECONDS * effort)
    seconds = time.monotonic() - begun
    transactions_after, processor_after = _transactions(), _processor_seconds(pids)
    cost: dict[str, float | None] = {
        "idle_seconds": seconds,
        "idle_cpu_share": None,
        "idle_transactions_per_second": None,
    }
    if processor is not None and processor_after is not None:
        cost["idle_cpu_share"] = (processor_after - processor) / seconds / len(pids)
    if transactions is not None and transactions_after is not None:
        # One of the transactions read the counter.
        count = max(transactions_after - transactions - 1, 0)
        cost["idle_transactions_per_second"] = count / seconds
    return cost


def _transactions() -> int | None:
    """Return how many transactions this database has had, None if it does not count them."""
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database"
            " WHERE datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def _processor_seconds(pids: Sequence[int]) -> float | None:
    """Return the processor time that these processes have used, None if there is no /proc."""
    try:
        stats = [Path(f"/proc/{pid}/stat").read_text(encoding="ascii") for pid in pids]
    except OSError:
        return None
    # The name in brackets may hold spaces; user and system time are fields 14 and 15.
    ticks = sum(sum(map(int, stat.rpartition(")")[2].split()[11:13])) for stat in stats)
    return ticks / os.sysconf("SC_CLK_TCK")
