"""`bench_queue locks`: how long a released lock key waits for its next job."""

from __future__ import annotations

from itertools import pairwise

from jobs.management.benchmarks import rows
from jobs.management.benchmarks.firms import make_firms
from jobs.management.benchmarks.rows import Kind
from jobs.management.benchmarks.scenario import Figures, Plan, percentile
from jobs.management.benchmarks.workers import serving

KEYS_PER_FIRM = 5
# A key should be taken again within this time.
BOUND_MS = 300


def measure_locks(plan: Plan) -> Figures:
    """Let workers run jobs of which only one per key may run at once."""
    firms = make_firms(plan.firms)
    with serving(plan) as workers:
        rows.fill(rows.spread(plan.jobs, firms), Kind(lock_keys=KEYS_PER_FIRM))
        workers.wait_until_settled(plan.jobs)
    seconds, rate = rows.speed(plan.jobs)
    gaps = _gaps() or [0.0]
    p50, p99 = percentile(gaps, 50), percentile(gaps, 99)
    point = {
        "keys": min(KEYS_PER_FIRM * plan.firms, plan.jobs),
        "hand_overs": len(gaps),
        "p50_ms": p50,
        "p99_ms": p99,
        "max_ms": max(gaps),
        f"over_{BOUND_MS}_ms": sum(gap > BOUND_MS for gap in gaps),
    }
    return {
        "seconds": seconds,
        "jobs_per_second": rate,
        "p50_ms": p50,
        "p99_ms": p99,
        "points": [point],
    }


def _gaps() -> list[float]:
    """Return the milliseconds from each end of a job to the claim of the next one of its key."""
    jobs = sorted(rows.completed("firm_id", "lock_key", "claimed_at", "completed_at"))
    return [
        (after[2] - before[3]).total_seconds() * 1_000
        for before, after in pairwise(jobs)
        if before[:2] == after[:2]
    ]
