"""`bench_queue claim`: what a claim of 100 costs, depending on the other rows of the table."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from uuid_utils.compat import uuid7

from jobs.benchmarks import rows
from jobs.benchmarks.claim_states import JOBS_OF_EACH_FIRM, STATES, Measurement, burdened
from jobs.benchmarks.firms import BenchmarkFirms
from jobs.benchmarks.measures import percentile
from jobs.benchmarks.scenario import Figures, Plan, Point, Scenario
from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare
from jobs.engine.release import release

BATCH = 100
# How often a claim is timed, fewer times when it is slow; the first few are not counted.
MOST_CLAIMS = 60
LEAST_CLAIMS = 6
ENOUGH_SECONDS = 3.0
WARM_UP = 3


@dataclass
class Timed:
    """How long claims took, and how many jobs each of them got at least."""

    milliseconds: list[float] = field(default_factory=list)
    claimed: int = BATCH


class ClaimGrowth(Scenario):
    """Claims beside burdens of several kinds, and releases what it claimed."""

    name = "claim"
    measures = (
        "claim(100) as a worker calls it: with a few jobs of"
        " each firm in the table and nothing else (base), and with --jobs older rows of several"
        " kinds beside them. What was claimed goes back. Each ratio is to the base just before."
    )
    default_jobs = 100_000

    def measure(self, plan: Plan, bench_firms: BenchmarkFirms) -> Figures:
        """Measure one state after the other."""
        begun = time.perf_counter()
        firms = bench_firms.make(plan.firms)
        few = dict.fromkeys(firms, max(JOBS_OF_EACH_FIRM, ceil(3 * BATCH / plan.firms)))
        points: list[Point] = []
        for burden, measurements in STATES:
            rows.fill(few)
            # Measured before each state, since the speed of the machine may change.
            base = _time_claims(Measurement("the few jobs alone"))
            with burdened(burden, plan.jobs, bench_firms, firms):
                rows.tidy()
                points += [
                    _point(measurement, _time_claims(measurement), base)
                    for measurement in measurements
                ]
            bench_firms.clear()
        return Figures(seconds=time.perf_counter() - begun, points=points)


def _point(measurement: Measurement, timed: Timed, base: Timed) -> Point:
    return {
        "beside": measurement.state,
        "claimed": timed.claimed,
        "claim_p50_ms": percentile(timed.milliseconds, 50),
        "claim_p99_ms": percentile(timed.milliseconds, 99),
        "base_p50_ms": percentile(base.milliseconds, 50),
        "ratio": median(timed.milliseconds) / median(base.milliseconds),
    }


def _time_claims(measurement: Measurement) -> Timed:
    """Claim and release again and again, with one fair share state."""
    fair_share, worker_id = FairShare(), uuid7()
    timed = Timed()
    until = time.monotonic() + ENOUGH_SECONDS
    for number in range(MOST_CLAIMS):
        if number >= LEAST_CLAIMS and time.monotonic() > until:
            break
        begun = time.perf_counter()
        claims = claim(
            worker_id,
            BATCH,
            fair_share,
            categories=measurement.categories,
            job_types=measurement.job_types,
        )
        seconds = time.perf_counter() - begun
        release(claims, "a benchmark claimed it")
        if number >= WARM_UP:
            timed.milliseconds.append(seconds * 1_000)
            timed.claimed = min(timed.claimed, len(claims))
    return timed
