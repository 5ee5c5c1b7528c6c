"""The firms a benchmark works with: its own, made for it and gone after it."""

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
# Beside the slug: no firm of a person's making is taken for one of these.
FIRM_NAME = "Firm of bench_queue"
_OURS = Q(name=FIRM_NAME, slug__startswith=SLUG_PREFIX)
NAMED_FIRMS = 3


class Ground:
    """Makes firms, and takes away what was made for them."""

    def __init__(self) -> None:
        self._slug = f"{SLUG_PREFIX}{uuid7().hex[-12:]}"
        self._made = 0

    def make_firms(self, count: int) -> list[int]:
        """Make firms; return their ids, lowest first."""
        firms = Firm.objects.bulk_create(
            Firm(name=FIRM_NAME, slug=f"{self._slug}-{self._made + number}")
            for number in range(count)
        )
        self._made += count
        return sorted(firm.pk for firm in firms)

    def clear(self) -> None:
        """Delete every row of the firms but not the firms, and leave no dead rows behind."""
        # The database knows them even where an interrupt came before their ids did.
        rows.delete_of_firms(_ids(Q(slug__startswith=self._slug)))
        rows.tidy()

    def leave(self) -> None:
        """Delete the firms too."""
        self.clear()
        rows.delete_firms(_ids(Q(slug__startswith=self._slug)))


@contextmanager
def own_ground() -> Iterator[Ground]:
    """Give a benchmark its firms; whatever happens inside, nothing of it stays."""
    _take_away_leftovers()
    ground = Ground()
    try:
        yield ground
    except BaseException:
        # An interrupt comes in the midst of a statement too: nobody knows in what state that left
        # the connection.
        connection.close()
        raise
    finally:
        ground.leave()


def refuse_company() -> None:
    """Check that nobody else uses this queue.

    Raises:
        DatabaseInUse: other firms have jobs here, or workers serve it.
    """
    with all_firms("a benchmark looks whether it is alone"):
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


def _take_away_leftovers() -> None:
    """Delete what a benchmark that was killed left behind."""
    left = _ids(Q())
    if left:
        rows.delete_of_firms(left)
        rows.delete_firms(left)
        rows.tidy()


def _ids(which: Q) -> list[int]:
    """Return the benchmarks' firms of which this is true."""
    return list(Firm.objects.filter(_OURS, which).values_list("pk", flat=True))
