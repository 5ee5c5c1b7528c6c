"""Lines of waiting jobs, written by the table full, and who is served from them in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import connection

from jobs.benchmarks import rows
from jobs.benchmarks.measures import jain
from jobs.benchmarks.rows import Kind
from jobs.benchmarks.server import Server as AnyServer
from tenants.models import Firm
from tests.queue_kit import new_worker

__all__ = ["Server", "fill", "jain", "make_firms"]


def make_firms(count: int, weights: Sequence[float] = ()) -> list[int]:
    """Create firms, with these weights or the usual one; return their ids in turn."""
    given = weights or [1.0] * count
    firms = Firm.objects.bulk_create(
        Firm(name=f"Firm {number}", slug=f"line-{number}", weight=given[number])
        for number in range(count)
    )
    return sorted(firm.pk for firm in firms)


def fill(jobs: Mapping[int, int], *, priority: int = 2, age_seconds: int = 3_600) -> None:
    """Give firms, by id, so many jobs that are due since then."""
    rows.fill(jobs, Kind(job_type="noop", priority=priority, age_seconds=age_seconds))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


class Server(AnyServer):
    """A worker, with a row of its own, that is done with its jobs at once."""

    def __init__(self) -> None:
        super().__init__(new_worker())
