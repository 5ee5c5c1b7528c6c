"""Long backlogs of jobs, written straight to the tables, and the order in which they are served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from django.db import connection

from jobs.engine.claim import Claim, claim
from jobs.engine.fair_share import FairShare
from jobs.management.benchmarks import rows
from jobs.management.benchmarks.rows import Kind
from jobs.management.benchmarks.scenario import jain
from tenants.models import Firm
from tests.queue_kit import new_worker

__all__ = ["Server", "analyze", "fill", "jain", "make_firms"]


def make_firms(count: int, weights: Sequence[float] = ()) -> list[int]:
    """Create firms, with these weights or the usual one; return their ids in order."""
    given = weights or [1.0] * count
    firms = Firm.objects.bulk_create(
        Firm(name=f"Firm {number}", slug=f"line-{number}", weight=given[number])
        for number in range(count)
    )
    return sorted(firm.pk for firm in firms)


def fill(jobs: Mapping[int, int], *, priority: int = 2, age_seconds: int = 3_600) -> None:
    """Give each firm this many jobs, by its id; they have been due for `age_seconds`."""
    rows.fill(jobs, Kind(job_type="noop", priority=priority, age_seconds=age_seconds))
    analyze()


def analyze() -> None:
    """Let the planner know what the tables contain."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


class Server:
    """A worker with a row of its own, whose jobs complete at once."""

    def __init__(self) -> None:
        self.fair_share = FairShare()
        self._worker_id = new_worker()

    def claim(self, limit: int) -> list[Claim]:
        """Claim one batch."""
        return claim(self._worker_id, limit, self.fair_share)

    def finish(self, claims: Sequence[Claim]) -> list[int]:
        """Complete these jobs; return their firms in order."""
        rows.complete([one.job_id for one in claims])
        return [one.firm_id for one in claims]

    def serve(self, limit: int) -> list[int]:
        """Claim and complete one batch; return the firms of its jobs in order."""
        return self.finish(self.claim(limit))

    def services(self, limit: int) -> Iterator[int]:
        """Yield the firms of all jobs, batch after batch, until no job is left."""
        while served := self.serve(limit):
            yield from served
