"""The firms of a benchmark: made for it, and deleted after it with all their rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from django.apps import apps
from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from uuid_utils.compat import uuid7

from jobs.engine.transactions import in_transaction, run
from jobs.errors import DatabaseInUse
from jobs.models import JobQueue, Worker
from tenants.models import Firm, FirmOwned
from tenants.scope import all_firms

# Checked beside the slug, so that no other firm is ever taken for one of these.
FIRM_NAME = "Firm of bench_queue"
_OURS = Q(name=FIRM_NAME, slug__startswith="bench-")
_OUR_IDS = "SELECT id FROM tenants_firm WHERE name = %s AND slug LIKE 'bench-%%'"
NAMED_FIRMS = 3
DELETED_AT_ONCE = 100_000


def bench_firms() -> QuerySet[Firm]:
    """Return the firms of benchmarks."""
    return Firm.objects.filter(_OURS)


def make_firms(count: int) -> list[int]:
    """Make firms; return their ids, lowest first."""
    slug = f"bench-{uuid7().hex[-12:]}"
    firms = (Firm(name=FIRM_NAME, slug=f"{slug}-{number}") for number in range(count))
    return sorted(firm.pk for firm in Firm.objects.bulk_create(firms))


@contextmanager
def own_firms() -> Iterator[None]:
    """Delete the firms that the block makes, whatever happens; first, those of killed runs."""
    if bench_firms().exists():
        _delete()
    try:
        yield
    except BaseException:
        # An interrupt may come within a statement: the state of the connection is unknown.
        connection.close()
        raise
    finally:
        _delete()


def clear() -> None:
    """Delete every row of the firms but not the firms, and vacuum."""
    for table, key in _tables():
        some = (
            f"DELETE FROM {table} WHERE {key} IN ("
            f"SELECT {key} FROM {table} WHERE firm_id IN ({_OUR_IDS}) LIMIT {DELETED_AT_ONCE})"
        )
        while in_transaction(partial(run, some, [FIRM_NAME])):
            pass
    vacuum()


def vacuum() -> None:
    """Vacuum on PostgreSQL, so that the next measurement starts without dead rows."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for table, _ in _tables():
                cursor.execute(f"VACUUM (ANALYZE) {table}")


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
            f"this database holds jobs of other firms ({named}), which a benchmark would delay; "
            "choose an empty database, or pass --yes"
        )
    workers = Worker.objects.filter(dead_at=None, lease_expires_at__gt=Now()).count()
    if workers:
        raise DatabaseInUse(
            f"workers serve this database ({workers} of them) and would take the benchmark's jobs;"
            " stop them, or pass --yes"
        )


def _delete() -> None:
    clear()
    in_transaction(lambda: run(f"DELETE FROM tenants_firm WHERE id IN ({_OUR_IDS})", [FIRM_NAME]))


def _tables() -> list[tuple[str, str]]:
    """Return the queue's firm-owned tables, each with the name of its primary key."""
    models = apps.get_app_config("jobs").get_models()
    metas = [model._meta for model in models if issubclass(model, FirmOwned)]
    return [(meta.db_table, meta.pk.attname) for meta in metas]
