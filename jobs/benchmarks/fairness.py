"""`bench_queue fairness`: how long light firms wait behind a heavy one, and what claims cost."""

from __future__ import annotations

import time
from collections import Counter

from jobs.benchmarks import rows
from jobs.benchmarks.firms import BenchmarkFirms
from jobs.benchmarks.measures import jain, percentile
from jobs.benchmarks.rows import Kind
from jobs.benchmarks.scenario import Figures, Plan, Point, Scenario
from jobs.benchmarks.server import Server
from jobs.job_handlers import BENCH_JOB_TYPE

# How much a worker claims at once.
BATCHES = (1, 10, 100, 500)
# How often each firm is served, where that takes no more claims than MOST_CLAIMS.
ROUNDS = 2
MOST_CLAIMS = 200
HEAVY_AGE_SECONDS = 7_200
LIGHT_AGE_SECONDS = 3_600


class Fairness(Scenario):
    """Serves firms of which one has far more jobs than the others."""

    name = "fairness"
    measures = (
        "One firm has all of --jobs, older than the few of each of --firms light ones. A worker"
        " without processes claims in batches of several sizes: after how many services each light"
        " firm had its first turn, Jain's index over the services of all firms (1 is perfectly"
        " fair), and what a claim took."
    )
    default_jobs = 100_000
    default_firms = 1_000

    def measure(self, plan: Plan, bench_firms: BenchmarkFirms) -> Figures:
        """Measure one size of batch after the other."""
        heavy, *light = bench_firms.make(plan.firms + 1)
        rows.fill({heavy: plan.jobs}, Kind(age_seconds=HEAVY_AGE_SECONDS))
        begun = time.perf_counter()
        points: list[Point] = []
        for batch in BATCHES:
            rows.fill(dict.fromkeys(light, ROUNDS + 1), Kind(age_seconds=LIGHT_AGE_SECONDS))
            points.append(_serve(batch, heavy, len(light)))
        return Figures(seconds=time.perf_counter() - begun, points=points)


def _serve(batch: int, heavy: int, lights: int) -> Point:
    server = Server(job_types=(BENCH_JOB_TYPE,))
    times: list[float] = []
    order: list[int] = []
    services = ROUNDS * (lights + 1)
    while len(order) < services and (len(times) < MOST_CLAIMS or batch == max(BATCHES)):
        begun = time.perf_counter()
        claims = server.claim(batch)
        times.append((time.perf_counter() - begun) * 1_000)
        if not claims:
            break
        order += server.finish(claims)
    # The rest of the last batch is beyond what is measured.
    order = order[:services]
    first = {firm_id: place for place, firm_id in reversed(list(enumerate(order, 1)))}
    waits = [place for firm_id, place in first.items() if firm_id != heavy]
    return {
        "batch": batch,
        "claim_p50_ms": percentile(times, 50),
        "claim_p99_ms": percentile(times, 99),
        "services": len(order),
        "light_firms_served": len(waits),
        "first_turn": min(waits, default=None),
        "last_first_turn": max(waits, default=None),
        "jain": jain(list(Counter(order).values())) if order else None,
    }
