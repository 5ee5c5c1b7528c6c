"""`bench_queue claim`: what a claim of 100 costs, depending on the other rows of the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from statistics import median
from typing import Literal
from uuid import UUID

from uuid_utils.compat import uuid7

from jobs.engine.claim import Claim, claim
from jobs.engine.fair_share import FairShare
from jobs.engine.release import release
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.management.benchmarks import rows
from jobs.management.benchmarks.firms import clear, make_firms, vacuum
from jobs.management.benchmarks.rows import Kind
from jobs.management.benchmarks.scenario import Figures, Plan, percentile
from jobs.states import Category, Status
from tenants.models import Firm

BATCH = 100
# How often a claim is timed, fewer times when it is slow; the first few are not counted.
MOST_CLAIMS = 60
LEAST_CLAIMS = 6
ENOUGH_SECONDS = 3.0
WARM_UP = 3

MANY_FIRMS = 10_000
# At least this many, so that a claim finds enough even in a few firms.
JOBS_OF_EACH_FIRM = 20
AGE_SECONDS = 3_600.0

ClaimFunction = Callable[[UUID, int, FairShare], list[Claim]]
WAITING = Kind(age_seconds=AGE_SECONDS)


@dataclass(frozen=True, kw_only=True)
class State:
    """A state of the table: how many other rows it has (`times` --jobs), and which."""

    measurements: dict[str, ClaimFunction]
    kind: Kind = WAITING
    times: int = 1
    owners: Literal["every firm", "the first", "many more"] = "every firm"
    # Whether the first firm has a cap.
    capped: bool = False


STATES = (
    State(measurements={"waiting jobs of every firm": claim}),
    State(
        measurements={"5 times as many finished jobs": claim},
        kind=Kind(status=Status.COMPLETED, age_seconds=AGE_SECONDS),
        times=5,
    ),
    State(measurements={"waiting jobs of one firm": claim}, owners="the first"),
    State(
        measurements={"jobs waiting for one lock key": claim},
        kind=Kind(lock_keys=1, age_seconds=AGE_SECONDS),
        owners="the first",
    ),
    State(
        measurements={"jobs held back by the first firm's cap": claim},
        kind=Kind(ready=False, age_seconds=AGE_SECONDS),
        owners="the first",
        capped=True,
    ),
    State(
        measurements={"jobs of the first firm, capped just now": claim},
        owners="the first",
        capped=True,
    ),
    State(
        measurements={
            "--category behind jobs of another": partial(
                claim, categories=(Category.MAINTENANCE.value,)
            ),
            "--job-type behind jobs of another": partial(claim, job_types=(BENCH_JOB_TYPE,)),
        },
        kind=Kind(job_type="noop", category=Category.EXPORT.value, age_seconds=AGE_SECONDS),
    ),
    State(
        measurements={f"waiting jobs of (at most) {MANY_FIRMS:,} more firms": claim},
        owners="many more",
    ),
)


def measure_claim(plan: Plan) -> Figures:
    """Claim in one state of the table after the other, and release what was claimed."""
    begun = time.perf_counter()
    firms = make_firms(plan.firms)
    few = dict.fromkeys(firms, max(JOBS_OF_EACH_FIRM, ceil(3 * BATCH / plan.firms)))
    first = Firm.objects.filter(pk=firms[0])
    points = []
    for state in STATES:
        rows.fill(few)
        # Measured before each state, since the speed of the machine may change.
        base, _ = _time_claims(claim)
        rows.fill(
            rows.spread(state.times * plan.jobs, _owners(state, plan.jobs, firms)), state.kind
        )
        first.update(running_cap=1 if state.capped else None)
        vacuum()
        for name, function in state.measurements.items():
            milliseconds, claimed = _time_claims(function)
            points.append(
                {
                    "beside": name,
                    "claimed": claimed,
                    "claim_p50_ms": percentile(milliseconds, 50),
                    "claim_p99_ms": percentile(milliseconds, 99),
                    "base_p50_ms": percentile(base, 50),
                    "ratio": median(milliseconds) / median(base),
                }
            )
        first.update(running_cap=None)
        clear()
    return {"seconds": time.perf_counter() - begun, "points": points}


def _owners(state: State, jobs: int, firms: Sequence[int]) -> Sequence[int]:
    if state.owners == "many more":
        return make_firms(min(MANY_FIRMS, ceil(jobs / JOBS_OF_EACH_FIRM)))
    return firms[:1] if state.owners == "the first" else firms


def _time_claims(function: ClaimFunction) -> tuple[list[float], int]:
    """Claim and release repeatedly; return the milliseconds, and the fewest jobs of a claim."""
    fair_share, worker_id = FairShare(), uuid7()
    milliseconds: list[float] = []
    fewest = BATCH
    until = time.monotonic() + ENOUGH_SECONDS
    for number in range(MOST_CLAIMS):
        if number >= LEAST_CLAIMS and time.monotonic() > until:
            break
        # The jobs that are given back lie before the backlog's place, so every claim has to scan.
        fair_share.backlog = None
        begun = time.perf_counter()
        claims = function(worker_id, BATCH, fair_share)
        taken = (time.perf_counter() - begun) * 1_000
        release(claims, "a benchmark claimed it")
        if number >= WARM_UP:
            milliseconds.append(taken)
            fewest = min(fewest, len(claims))
    return milliseconds, fewest
