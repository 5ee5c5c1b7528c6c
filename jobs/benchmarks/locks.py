"""`bench_queue locks`: how long a released lock key waits for its next job."""

from __future__ import annotations

from jobs.benchmarks import rows
from jobs.benchmarks.firms import BenchmarkFirms
from jobs.benchmarks.measures import percentile
from jobs.benchmarks.rows import Kind
from jobs.benchmarks.scenario import Figures, Plan, Scenario
from jobs.benchmarks.workers import serving

KEYS_PER_FIRM = 5
# A key should be taken again within this time.
BOUND_MS = 300


class Locks(Scenario):
    """Runs jobs of which only one per key may run at once."""

    name = "locks"
    measures = (
        "Workers work off jobs with 5 lock keys per firm. p50 and p99 run from the end of a job to"
        " the claim of the next one of its key, by the database's clock."
    )
    has_workers = True
    default_jobs = 5_000
    default_firms = 10
    default_concurrency = 14
    default_processes = 4

    def measure(self, plan: Plan, bench_firms: BenchmarkFirms) -> Figures:
        """Let workers run the keyed jobs."""
        firms = bench_firms.make(plan.firms)
        with serving(plan) as workers:
            rows.fill(rows.spread(plan.jobs, firms), Kind(lock_keys=KEYS_PER_FIRM))
            workers.wait_until_settled(firms, plan.jobs)
        span = rows.completed_span(firms)
        gaps = [seconds * 1_000 for seconds in rows.hand_overs(firms)] or [0.0]
        point = {
            "keys": min(KEYS_PER_FIRM * plan.firms, plan.jobs),
            "hand_overs": len(gaps),
            "p50_ms": percentile(gaps, 50),
            "p99_ms": percentile(gaps, 99),
            "max_ms": max(gaps),
            f"over_{BOUND_MS}_ms": sum(gap > BOUND_MS for gap in gaps),
        }
        return Figures(
            seconds=span.seconds,
            jobs_per_second=span.jobs_per_second,
            p50_ms=percentile(gaps, 50),
            p99_ms=percentile(gaps, 99),
            points=[point],
        )
