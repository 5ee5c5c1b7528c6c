"""The states of the table in which a claim is timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from math import ceil

from jobs.benchmarks import rows
from jobs.benchmarks.firms import BenchmarkFirms
from jobs.benchmarks.rows import Kind
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.states import Category, Status
from tenants.models import Firm

MANY_FIRMS = 10_000
# At least this many, so that a claim finds enough even in a few firms.
JOBS_OF_EACH_FIRM = 20
FINISHED_PER_JOB = 5
AGE_SECONDS = 3_600.0
WAITING = Kind(age_seconds=AGE_SECONDS)


class Owner(Enum):
    """Which firms own the rows of the burden."""

    EVERY_FIRM = auto()
    FIRST_FIRM = auto()
    MANY_MORE_FIRMS = auto()


@dataclass(frozen=True, kw_only=True)
class Burden:
    """The other rows in the table: `times` the number of --jobs."""

    times: int = 1
    kind: Kind = WAITING
    owner: Owner = Owner.EVERY_FIRM
    # Whether the first firm has a cap.
    capped: bool = False


@dataclass(frozen=True)
class Measurement:
    """One measurement, and what the worker is restricted to; nothing named means all."""

    state: str
    categories: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()


STATES: tuple[tuple[Burden, tuple[Measurement, ...]], ...] = (
    (Burden(), (Measurement("waiting jobs of every firm"),)),
    (
        Burden(times=FINISHED_PER_JOB, kind=Kind(status=Status.COMPLETED, age_seconds=AGE_SECONDS)),
        (Measurement(f"{FINISHED_PER_JOB} times as many finished jobs"),),
    ),
    (Burden(owner=Owner.FIRST_FIRM), (Measurement("waiting jobs of one firm"),)),
    (
        Burden(owner=Owner.FIRST_FIRM, kind=Kind(lock_keys=1, age_seconds=AGE_SECONDS)),
        (Measurement("jobs waiting for one lock key"),),
    ),
    (
        Burden(
            owner=Owner.FIRST_FIRM, kind=Kind(ready=False, age_seconds=AGE_SECONDS), capped=True
        ),
        (Measurement("jobs held back by the first firm's cap"),),
    ),
    (
        Burden(owner=Owner.FIRST_FIRM, capped=True),
        (Measurement("jobs of the first firm, capped just now"),),
    ),
    (
        Burden(kind=Kind(job_type="noop", category=Category.EXPORT.value, age_seconds=AGE_SECONDS)),
        (
            Measurement(
                "--category behind jobs of another", categories=(Category.MAINTENANCE.value,)
            ),
            Measurement("--job-type behind jobs of another", job_types=(BENCH_JOB_TYPE,)),
        ),
    ),
    (
        Burden(owner=Owner.MANY_MORE_FIRMS),
        (Measurement(f"waiting jobs of (at most) {MANY_FIRMS:,} more firms"),),
    ),
)


@contextmanager
def burdened(
    burden: Burden, jobs: int, bench_firms: BenchmarkFirms, firms: Sequence[int]
) -> Iterator[None]:
    """Store the burden; the caller clears it."""
    owners = _owners(burden.owner, jobs, bench_firms, firms)
    rows.fill(rows.spread(burden.times * jobs, owners), burden.kind)
    first = Firm.objects.filter(pk=firms[0])
    first.update(running_cap=1 if burden.capped else None)
    try:
        yield
    finally:
        first.update(running_cap=None)


def _owners(
    owner: Owner, jobs: int, bench_firms: BenchmarkFirms, firms: Sequence[int]
) -> Sequence[int]:
    match owner:
        case Owner.EVERY_FIRM:
            return firms
        case Owner.FIRST_FIRM:
            return firms[:1]
        case Owner.MANY_MORE_FIRMS:
            return bench_firms.make(min(MANY_FIRMS, ceil(jobs / JOBS_OF_EACH_FIRM)))
