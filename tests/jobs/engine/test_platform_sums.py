"""The platform sums are the sums over all firms, whoever wrote or deleted the firms' rows."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from jobs.engine import counters
from jobs.engine.counters import Counted, count, fold_counters
from jobs.engine.prune import prune
from jobs.engine.rollups import Measured, Rollups
from jobs.engine.transactions import in_transaction
from jobs.models import (
    JobHour,
    JobMinute,
    LatencyBucket,
    PlatformHour,
    PlatformLatency,
    PlatformMinute,
)
from jobs.models.history import COUNTERS
from jobs.queries.latency import latency
from jobs.queries.stats import queue_stats
from jobs.states import Status
from tenants.models import Firm
from tenants.ownership import delete_rows, owned_tables
from tenants.scope import all_firms, firm_scope
from tests.queue_kit import later, rows, table_rows
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-01", "W-07")]

DAY = 86_400
SUMMED: list[tuple[type[Any], type[Any], tuple[str, ...], tuple[str, ...]]] = [
    (JobMinute, PlatformMinute, ("minute", "category"), COUNTERS),
    (JobHour, PlatformHour, ("minute", "category"), COUNTERS),
    (
        LatencyBucket,
        PlatformLatency,
        ("span_minutes", "span_start", "category", "measure", "bucket"),
        ("attempts",),
    ),
]
Sums = dict[tuple[Any, ...], tuple[int, ...]]


def added_up(model: type[Any], keys: tuple[str, ...], numbers: tuple[str, ...]) -> Sums:
    """Return the sums of the table's rows by these columns, without those that are all zero."""
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for row in model._default_manager.all():
        found = sums.setdefault(tuple(getattr(row, key) for key in keys), Counter())
        found.update({name: getattr(row, name) for name in numbers})
    return {
        key: values
        for key, found in sums.items()
        if any(values := tuple(found[name] for name in numbers))
    }


def assert_sums(*, some: bool = True) -> None:
    """Check that each table of platform sums has the firms' sums, and no empty rows."""
    with all_firms("test"):
        for of_firms, of_all, keys, numbers in SUMMED:
            wanted = added_up(of_firms, keys, numbers)
            assert added_up(of_all, keys, numbers) == wanted, of_all
            assert of_all.objects.count() == len(wanted), of_all
            assert bool(wanted) is some, of_all


def work(firm: Firm, *counted: str, category: str = "sync") -> None:
    """Count these ends of the firm's jobs, and store the times of one attempt."""
    in_transaction(lambda: count([Counted(firm.pk, category, one, 1.5, 0.25) for one in counted]))
    rollups = Rollups()
    rollups.add([Measured(firm.pk, category, "noop", [1.5], [0.25], failed=False)])
    assert rollups.store()
    while fold_counters():
        pass


def work_of_both(firm: Firm, other_firm: Firm) -> None:
    work(firm, "completed", "completed", "failed")
    work(firm, "dlq", "discarded", category="export")
    work(other_firm, "completed", "canceled")
    work(other_firm, "canceled_restarted")


def test_they_follow_folds_and_stored_times(firm: Firm, other_firm: Firm) -> None:
    assert_sums(some=False)
    work_of_both(firm, other_firm)
    assert_sums()
    with later(3_700):
        work(other_firm, "completed")
        work(firm, "retried")
    assert_sums()


def test_they_follow_whoever_changes_a_row(firm: Firm, other_firm: Firm) -> None:
    work_of_both(firm, other_firm)
    with firm_scope(firm):
        # The sums follow even a change in the scope of one firm, which sees no platform sum.
        JobMinute.objects.update(completed=7)
        JobHour.objects.filter(category="sync").update(category="documents")
        JobHour.objects.create(firm=firm, minute=timezone.now(), category="sync", completed=3)
        LatencyBucket.objects.update(attempts=5)
    assert_sums()


def test_what_is_pruned_or_deleted_is_no_part_of_them(firm: Firm, other_firm: Firm) -> None:
    Firm.objects.filter(pk=firm.pk).update(retention_days=1)
    firm.refresh_from_db()
    work_of_both(firm, other_firm)
    with later(3 * DAY):
        work(firm, "completed")
        assert prune(firm).minutes > 0
        assert prune(other_firm).minutes == 0
    assert_sums()
    with all_firms("test"):
        for table in owned_tables():
            delete_rows(table, other_firm.pk, 1_000)
    assert_sums()
    with all_firms("test"):
        for table in owned_tables():
            delete_rows(table, firm.pk, 1_000)
    assert_sums(some=False)


def test_folds_beside_each_other_and_beside_deletions_leave_them_right(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "FOLD_BATCH", 7)
    line = Barrier(4)

    def take_part(number: int) -> None:
        line.wait(20)
        mine = (firm, other_firm)[number % 2]
        try:
            for _ in range(20):
                if number == 3:
                    with all_firms("test"):
                        JobHour.objects.filter(firm=firm).delete()
                else:
                    note = Counted(mine.pk, "sync", "completed", 1.5, 0.25)
                    in_transaction(lambda note=note: count([note]))
                    fold_counters()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as workers:
        list(workers.map(take_part, range(4)))
    work_of_both(firm, other_firm)
    assert_sums()


def test_statistics_of_all_are_those_of_the_firms_together(firm: Firm, other_firm: Firm) -> None:
    work_of_both(firm, other_firm)
    # A delta that is not folded yet belongs to the firm's statistics and to those of all.
    in_transaction(lambda: count([Counted(other_firm.pk, "sync", "completed", 1.5, 0.25)]))
    shares = []
    for one in (firm, other_firm):
        with firm_scope(one):
            stats = queue_stats()
            times = latency(stats.generated_at, stats.generated_at)
            shares.append((stats.totals, sum(found.attempts for found in times.values())))
    with all_firms("test"):
        whole = queue_stats()
        times = latency(whole.generated_at, whole.generated_at)
    (mine, my_attempts), (theirs, their_attempts) = shares
    for status in (Status.COMPLETED, Status.FAILED, Status.CANCELED):
        both = mine.statuses[status] + theirs.statuses[status]
        assert whole.totals.statuses[status] == both
    assert whole.totals.statuses[Status.COMPLETED] == 4
    assert whole.totals.window_completed == mine.window_completed + theirs.window_completed == 4
    assert whole.totals.window_failed == mine.window_failed + theirs.window_failed == 2
    assert sum(found.attempts for found in times.values()) == my_attempts + their_attempts == 8


@postgresql_only
@pytest.mark.req("T-02")
def test_a_firm_does_not_see_them(firm: Firm, other_firm: Firm) -> None:
    work_of_both(firm, other_firm)
    for _, of_all, _, _ in SUMMED:
        table = of_all._meta.db_table
        with firm_scope(firm):
            assert table_rows(f"SELECT count(*) FROM {table}") == [(0,)]
        with all_firms("test"):
            assert of_all.objects.exists()


@pytest.mark.req("J-01")
def test_the_migration_adds_up_what_is_there(firm: Firm, other_firm: Firm) -> None:
    with later(0):
        # With the clock stopped, all counts are of one hour.
        work_of_both(firm, other_firm)
    try:
        call_command("migrate", "jobs", "0032", verbosity=0)
        with all_firms("test"):
            JobHour.objects.filter(firm=firm).update(completed=9)
            JobMinute.objects.filter(firm=other_firm).delete()
    finally:
        call_command("migrate", "jobs", verbosity=0)
    assert_sums()
    assert len(rows(JobHour)) == 3
    work(firm, "completed")
    assert_sums()
