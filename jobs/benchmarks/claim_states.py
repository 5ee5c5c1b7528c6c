"""The states of the table in which a claim is timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from math import ceil

from jobs.benchmarks import rows
from jobs.benchmarks.ground import Ground
from jobs.benchmarks.rows import Kind
from jobs.job_handlers import BENCH_JOB_TYPE
from jobs.states import Category, Status
from tenants.models import Firm

MANY_FIRMS = 10_000
# At least, so that a claim of many finds enough in a few firms.
JOBS_OF_EACH_FIRM = 20
FINISHED_PER_JOB = 5
AGE_SECONDS = 3_600.0
WAITING = Kind(age_seconds=AGE_SECONDS)


class Whose(Enum):
    """Whose rows the burden is."""

    EVERY_FIRM = auto()
    FIRST_FIRM = auto()
    MANY_MORE_FIRMS = auto()


@dataclass(frozen=True, kw_only=True)
class Burden:
    """What lies in the table beside the few jobs of each firm: `times` --jobs rows."""

    times: int = 1
    kind: Kind = WAITING
    whose: Whose = Whose.EVERY_FIRM
    # Whether the first firm has a cap meanwhile.
    capped: bool = False


@dataclass(frozen=True)
class Look:
    """One measurement, and what the worker serves in it; nothing named means all."""

    state: str
    categories: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()


STATES: tuple[tuple[Burden, tuple[Look, ...]], ...] = (
    (Burden(), (Look("waiting jobs of every firm"),)),
    (
        Burden(times=FINISHED_PER_JOB, kind=Kind(status=Status.COMPLETED, age_seconds=AGE_SECONDS)),
        (Look(f"{FINISHED_PER_JOB} times as many finished jobs"),),
    ),
    (Burden(whose=Whose.FIRST_FIRM), (Look("waiting jobs of one firm"),)),
    (
        Burden(whose=Whose.FIRST_FIRM, kind=Kind(lock_keys=1, age_seconds=AGE_SECONDS)),
        (Look("jobs waiting for one lock key"),),
    ),
    (
        Burden(
            whose=Whose.FIRST_FIRM, kind=Kind(ready=False, age_seconds=AGE_SECONDS), capped=True
        ),
        (Look("jobs held back by the first firm's cap"),),
    ),
    (
        Burden(whose=Whose.FIRST_FIRM, capped=True),
        (Look("jobs of the first firm, capped just now"),),
    ),
    (
        Burden(kind=Kind(job_type="noop", category=Category.EXPORT.value, age_seconds=AGE_SECONDS)),
        (
            Look("--category behind jobs of another", categories=(Category.MAINTENANCE.value,)),
            Look("--job-type behind jobs of another", job_types=(BENCH_JOB_TYPE,)),
        ),
    ),
    (
        Burden(whose=Whose.MANY_MORE_FIRMS),
        (Look(f"waiting jobs of (at most) {MANY_FIRMS:,} more firms"),),
    ),
)


@contextmanager
def burdened(burden: Burden, jobs: int, ground: Ground, firms: Sequence[int]) -> Iterator[None]:
    """Lay the burden out; the caller clears the ground."""
    owners = _owners(burden.whose, jobs, ground, firms)
    rows.fill(rows.spread(burden.times * jobs, owners), burden.kind)
    first = Firm.objects.filter(pk=firms[0])
    first.update(running_cap=1 if burden.capped else None)
    try:
        yield
    finally:
        first.update(running_cap=None)


def _owners(whose: Whose, jobs: int, ground: Ground, firms: Sequence[int]) -> Sequence[int]:
    match whose:
        case Whose.EVERY_FIRM:
            return firms
        case Whose.FIRST_FIRM:
            return firms[:1]
        case Whose.MANY_MORE_FIRMS:
            return ground.make_firms(min(MANY_FIRMS, ceil(jobs / JOBS_OF_EACH_FIRM)))
