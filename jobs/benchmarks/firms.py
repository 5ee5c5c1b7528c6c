"""The firms of a benchmark: made for it, and deleted after it with all their rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from uuid_utils.compat import uuid7

from jobs.benchmarks import rows
from jobs.errors import DatabaseInUse
from jobs.models import JobQueue, Worker
from tenants.models import Firm
from tenants.scope import all_firms

SLUG_PREFIX = "bench-"
# Checked beside the slug, so that no other firm is ever taken for one of these.
FIRM_NAME = "Firm of bench_queue"
_OURS = Q(name=FIRM_NAME, slug__startswith=SLUG_PREFIX)
NAMED_FIRMS = 3


class BenchmarkFirms:
    """Makes firms, and deletes them with their rows."""

    def __init__(self) -> None:
        self._slug = f"{SLUG_PREFIX}{uuid7().hex[-12:]}"
        self._made = 0

    def make(self, count: int) -> list[int]:
        """Make firms; return their ids, lowest first."""
        firms = Firm.objects.bulk_create(
            Firm(name=FIRM_NAME, slug=f"{self._slug}-{self._made + number}")
            for number in range(count)
        )
        self._made += count
        return sorted(firm.pk for firm in firms)

    def clear(self) -> None:
        """Delete every row of the firms but not the firms, and vacuum."""
        # By slug: after an interrupt the ids may not be known here.
        rows.delete_of_firms(_ids(Q(slug__startswith=self._slug)))
        rows.tidy()

    def delete(self) -> None:
        """Delete the firms too."""
        self.clear()
        rows.delete_firms(_ids(Q(slug__startswith=self._slug)))


@contextmanager
def own_firms() -> Iterator[BenchmarkFirms]:
    """Yield a benchmark its firms, and delete them whatever happens."""
    _delete_leftovers()
    bench_firms = BenchmarkFirms()
    try:
        yield bench_firms
    except BaseException:
        # An interrupt may come within a statement: the state of the connection is unknown.
        connection.close()
        raise
    finally:
        bench_firms.delete()


def refuse_shared_database() -> None:
    """Refuse a database in use.

    Raises:
        DatabaseInUse: other firms have jobs here, or workers serve it.
    """
    with all_firms("a benchmark checks for other users"):
        job = JobQueue.objects.filter(firm_id=OuterRef("pk"))
        others = Firm.objects.filter(~_OURS, Exists(job)).order_by("pk")
        slugs = list(others.values_list("slug", flat=True)[: NAMED_FIRMS + 1])
    if slugs:
        named = ", ".join([*slugs[:NAMED_FIRMS], *(["…"] if slugs[NAMED_FIRMS:] else [])])
        raise DatabaseInUse(
            f"this database holds jobs of other firms ({named}), whom a benchmark would slow"
            " down; choose an empty database, or pass --yes"
        )
    workers = Worker.objects.filter(dead_at=None, lease_expires_at__gt=Now()).count()
    if workers:
        raise DatabaseInUse(
            f"workers serve this database ({workers} of them) and would take the benchmark's jobs;"
            " stop them, or pass --yes"
        )


def _delete_leftovers() -> None:
    """Delete the rows of benchmarks that were killed."""
    left = _ids(Q())
    if left:
        rows.delete_of_firms(left)
        rows.delete_firms(left)
        rows.tidy()


def _ids(which: Q) -> list[int]:
    """Return the ids of the benchmarks' firms that match."""
    return list(Firm.objects.filter(_OURS, which).values_list("pk", flat=True))
