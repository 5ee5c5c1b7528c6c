"""`bench_queue fairness`: how long light firms wait behind a heavy one, and what claims cost."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from uuid_utils.compat import uuid7

from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.management.benchmarks import rows
from jobs.management.benchmarks.firms import make_firms
from jobs.management.benchmarks.rows import Kind
from jobs.management.benchmarks.scenario import Figures, Plan, jain, percentile

# How much a worker claims at once.
BATCHES = (1, 10, 100, 500)
# How often each firm is served, unless that takes more than MOST_CLAIMS claims.
ROUNDS = 2
MOST_CLAIMS = 200
HEAVY_AGE_SECONDS = 7_200
LIGHT_AGE_SECONDS = 3_600


def measure_fairness(plan: Plan) -> Figures:
    """Serve firms of which one has far more jobs, with one size of batch after the other."""
    heavy, *light = make_firms(plan.firms + 1)
    rows.fill({heavy: plan.jobs}, Kind(age_seconds=HEAVY_AGE_SECONDS))
    begun = time.perf_counter()
    points = []
    for batch in BATCHES:
        rows.fill(dict.fromkeys(light, ROUNDS + 1), Kind(age_seconds=LIGHT_AGE_SECONDS))
        points.append(_serve(batch, heavy, len(light)))
    return {"seconds": time.perf_counter() - begun, "points": points}


def _serve(batch: int, heavy: int, lights: int) -> dict[str, Any]:
    worker_id, fair_share = uuid7(), FairShare()
    times: list[float] = []
    # The firms of the jobs served, in order.
    order: list[int] = []
    services = ROUNDS * (lights + 1)
    while len(order) < services and (len(times) < MOST_CLAIMS or batch == max(BATCHES)):
        begun = time.perf_counter()
        claims = claim(worker_id, batch, fair_share, job_types=(BENCH_JOB_TYPE,))
        times.append((time.perf_counter() - begun) * 1_000)
        if not claims:
            break
        rows.complete([one.job_id for one in claims])
        order += [one.firm_id for one in claims]
    # The rest of the last batch is not measured.
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
