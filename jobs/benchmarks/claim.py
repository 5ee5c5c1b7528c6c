"""`bench_queue claim`: what a claim of 100 costs, whatever else lies in the table."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from uuid_utils.compat import uuid7

from jobs.benchmarks import rows
from jobs.benchmarks.claim_states import JOBS_OF_EACH_FIRM, STATES, Look, burdened
from jobs.benchmarks.ground import Ground
from jobs.benchmarks.measures import percentile
from jobs.benchmarks.scenario import Figures, Plan, Point, Scenario
from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare
from jobs.engine.release import release

BATCH = 100
# So often a claim is timed, fewer times when it is slow; the first few warm it up.
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
    """Claims beside burdens of several kinds, and puts everything back."""

    name = "claim"
    measures = (
        "claim(100) as a worker calls it: with a few jobs of"
        " each firm in the table and nothing else (base), and with --jobs older rows of several"
        " kinds beside them. What was claimed goes back. Each ratio is to the base just before."
    )
    default_jobs = 100_000

    def measure(self, plan: Plan, ground: Ground) -> Figures:
        """Lay out one state after the other, and claim."""
        begun = time.perf_counter()
        firms = ground.make_firms(plan.firms)
        few = dict.fromkeys(firms, max(JOBS_OF_EACH_FIRM, ceil(3 * BATCH / plan.firms)))
        points: list[Point] = []
        for burden, looks in STATES:
            rows.fill(few)
            # Measured each time anew: what slows the machine down slows both down.
            base = _time_claims(Look("the few jobs alone"))
            with burdened(burden, plan.jobs, ground, firms):
                rows.tidy()
                points += [_point(look, _time_claims(look), base) for look in looks]
            ground.clear()
        return Figures(seconds=time.perf_counter() - begun, points=points)


def _point(look: Look, timed: Timed, base: Timed) -> Point:
    return {
        "beside": look.state,
        "claimed": timed.claimed,
        "claim_p50_ms": percentile(timed.milliseconds, 50),
        "claim_p99_ms": percentile(timed.milliseconds, 99),
        "base_p50_ms": percentile(base.milliseconds, 50),
        "ratio": median(timed.milliseconds) / median(base.milliseconds),
    }


def _time_claims(look: Look) -> Timed:
    """Claim and give back, again and again; the turns of the firms go on."""
    fair_share, worker_id = FairShare(), uuid7()
    timed = Timed()
    until = time.monotonic() + ENOUGH_SECONDS
    for number in range(MOST_CLAIMS):
        if number >= LEAST_CLAIMS and time.monotonic() > until:
            break
        begun = time.perf_counter()
        claims = claim(
            worker_id, BATCH, fair_share, categories=look.categories, job_types=look.job_types
        )
        seconds = time.perf_counter() - begun
        release(claims, "a benchmark claimed it")
        if number >= WARM_UP:
            timed.milliseconds.append(seconds * 1_000)
            timed.claimed = min(timed.claimed, len(claims))
    return timed
