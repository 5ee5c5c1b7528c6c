"""Counters are inserted as deltas and folded into their minutes; readers count each delta once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import Q, Sum

from jobs.admin.charts import RANGES, charts
from jobs.engine import counters
from jobs.engine.clock import database_now
from jobs.engine.counters import Counted, count, fold_counters
from jobs.engine.outcomes import Completed, Settlement
from jobs.engine.pending_work import read_pending_work
from jobs.engine.prune import prune
from jobs.engine.settle import settle
from jobs.engine.transactions import in_transaction
from jobs.models import JobMinute, JobMinuteDelta
from jobs.queries.stats import queue_stats, sum_counters
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import later, rows, take
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("W-07")]

WORDS = ("completed", "failed", "retried", "wait_ms", "run_ms")


def note(firm: Firm, counter: str = "completed", times: int = 1) -> None:
    in_transaction(lambda: count([Counted(firm.pk, "sync", counter, 1.5, 0.25)] * times))


def figures(model: type[Any]) -> list[tuple[int, ...]]:
    return sorted((one.firm_id, *(getattr(one, word) for word in WORDS)) for one in rows(model))


@pytest.fixture
def within_a_minute(transactional_db: None) -> Iterator[None]:
    """Stop the clock, because counts of two minutes would be in two rows."""
    with later(0):
        yield


@pytest.mark.usefixtures("within_a_minute")
def test_a_statement_adds_rows_of_its_own_and_a_fold_adds_them_up(
    firm: Firm, other_firm: Firm
) -> None:
    note(firm, times=2), note(firm, "failed"), note(firm), note(other_firm, "retried")
    assert len(rows(JobMinuteDelta)) == 4
    assert rows(JobMinute) == []
    assert read_pending_work().deltas
    assert fold_counters() == 4
    folded = [(firm.pk, 3, 1, 0, 6000, 1000), (other_firm.pk, 0, 0, 1, 1500, 250)]
    assert figures(JobMinute) == folded
    assert (rows(JobMinuteDelta), fold_counters()) == ([], 0)
    assert not read_pending_work().deltas
    note(firm)
    fold_counters()
    assert figures(JobMinute)[0] == (firm.pk, 4, 1, 0, 7500, 1250)


@pytest.mark.usefixtures("within_a_minute")
def test_a_fold_is_bounded(firm: Firm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "FOLD_BATCH", 2)
    for _ in range(5):
        note(firm)
    assert [fold_counters() for _ in range(4)] == [2, 2, 1, 0]
    assert figures(JobMinute) == [(firm.pk, 5, 0, 0, 7500, 1250)]


def test_a_fold_that_breaks_off_loses_nothing(firm: Firm, monkeypatch: pytest.MonkeyPatch) -> None:
    note(firm)

    def break_off(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(counters, "run", break_off)
        with pytest.raises(KeyboardInterrupt):
            fold_counters()
    assert fold_counters() == 1
    assert figures(JobMinute) == [(firm.pk, 1, 0, 0, 1500, 250)]


def test_folds_beside_each_other_and_beside_completions_count_each_delta_once(
    firm: Firm, other_firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "FOLD_BATCH", 7)
    line = Barrier(6)

    def work(number: int) -> None:
        line.wait(20)
        try:
            for _ in range(40):
                if number < 3:
                    note((firm, other_firm)[number % 2])
                else:
                    fold_counters()
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as workers:
        list(workers.map(work, range(6)))
    with all_firms("counting"):
        sums = sum_counters("firm_id", {"jobs": Sum("completed")}, Q())
        assert sum(row["jobs"] for row in sums) == 120
    while fold_counters():
        pass
    assert sum(one.completed for one in rows(JobMinute)) == 120


@postgresql_only
@pytest.mark.usefixtures("within_a_minute")
def test_a_fold_waits_for_no_one(firm: Firm) -> None:
    note(firm)
    fold_counters()
    note(firm)
    with ThreadPoolExecutor(1) as folder, all_firms("a caller"), transaction.atomic():
        # A worker of the previous version updates the row in its caller's transaction.
        JobMinute.objects.update(completed=7)
        assert folder.submit(folded).result(60) == 0
    assert fold_counters() == 1
    assert figures(JobMinute)[0][1] == 8


def folded() -> int:
    try:
        return fold_counters()
    finally:
        connection.close()


@pytest.mark.req("O-01")
def test_readers_see_what_is_folded_and_what_is_not(firm: Firm, add: Any) -> None:
    for _ in range(3):
        add()
    first, second, third = take(3)
    settle([Settlement(first, Completed({}), 2.0)])
    fold_counters()
    settle([Settlement(second, Completed({}), 2.0), Settlement(third, Completed({}), 2.0)])
    for _ in range(2):
        with all_firms("reading"):
            stats = queue_stats()
            (settled, _, _) = charts(chart_time(), RANGES["1h"])
        assert stats.totals.statuses["completed"] == stats.totals.window_completed == 3
        assert sum(bar.values["completed"] for bar in settled.bars) == 3
        fold_counters()


def chart_time() -> datetime:
    return database_now() + timedelta(seconds=1)


@pytest.mark.req("O-01")
def test_the_migration_back_keeps_what_was_not_folded(firm: Firm) -> None:
    with later(0):
        note(firm)
        fold_counters()
        note(firm, times=2)
    try:
        call_command("migrate", "jobs", "0011", verbosity=0)
        # Today's model has columns that the table of that version does not have.
        with all_firms("test"):
            stored = list(JobMinute.objects.values_list("firm_id", *WORDS))
        assert stored == [(firm.pk, 3, 0, 0, 4500, 750)]
    finally:
        call_command("migrate", "jobs", verbosity=0)
    assert rows(JobMinuteDelta) == []


def test_old_deltas_are_pruned_as_old_minutes_are(firm: Firm) -> None:
    note(firm)
    with later(91 * 86_400):
        note(firm, "failed")
        assert prune(firm).minutes == 1
    assert figures(JobMinuteDelta) == [(firm.pk, 0, 1, 0, 1500, 250)]
