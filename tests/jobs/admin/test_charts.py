"""The charts of the dashboard, and its table of firms."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobs.admin.charts import RANGES, Chart
from jobs.engine.clock import stopped_at
from jobs.engine.counters import Counted, count, fold_counters
from jobs.engine.transactions import in_transaction
from jobs.models import DeadLetterQueue, JobHour, JobMinute, WorkerVersion
from jobs.models.base import id_at
from jobs.queries.trouble import MOST_READ
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import FirmFactory
from tests.jobs.admin.conftest import FirmRows
from tests.queue_kit import new_worker, table_rows

pytestmark = pytest.mark.req("O-03")


# The clock stops at half past an hour, after all rows of the fixtures, so that no bar ends.
NOW = (timezone.now() + timedelta(hours=3)).replace(minute=30, second=0, microsecond=0)


@pytest.fixture(autouse=True)
def half_past() -> Iterator[None]:
    """Stop the database's clock."""
    with stopped_at(NOW):
        yield


def counted(firm: Firm, moment: datetime, **counters: int) -> None:
    """Store these counts for a minute and its hour."""
    minute = moment.replace(second=0, microsecond=0)
    with all_firms("test"):
        for model, start in ((JobMinute, minute), (JobHour, minute.replace(minute=0))):
            model.objects.update_or_create(
                firm=firm, category="sync", minute=start, defaults=counters
            )


def page(client: Client, chosen: str = "") -> Any:
    response = client.get(reverse("admin:index"), {"range": chosen} if chosen else {})
    assert response.status_code == 200
    return response


def shown(client: Client, chosen: str = "") -> dict[str, Chart]:
    return {chart.title: chart for chart in page(client, chosen).context["charts"]}


def filled(chart: Chart) -> list[int]:
    """Return the positions of the bars that are drawn."""
    return [place for place, bar in enumerate(chart.bars) if bar.parts]


def test_counters_add_up_to_stacked_bars_and_the_highest_is_named(
    operator: Client, firm: Firm
) -> None:
    now = NOW
    counted(firm, now, completed=6, failed=1, dlq=1, wait_ms=4000, run_ms=12_000)
    counted(firm, now - timedelta(hours=5), completed=4)
    charts = shown(operator)
    settled = charts["Settled jobs"]
    assert len(settled.bars) == 24
    assert settled.times[-1] == f"{NOW:%H}:00"
    assert settled.bars[-1].values == {"completed": 6, "failed": 2}
    assert settled.peak == "8 in 1 h"
    assert [(part.tone, part.height) for part in settled.bars[-1].parts] == [
        ("success", 75.0),
        ("danger", 25.0),
    ]
    assert filled(settled) == [24 - 6, 24 - 1]
    assert filled(charts["New dead letters"]) == [24 - 1]


@pytest.mark.parametrize(
    ("chosen", "bars", "ago", "place"),
    [
        ("1h", 30, timedelta(minutes=20), 30 - 11),
        ("24h", 24, timedelta(hours=20), 24 - 21),
        ("7d", 28, timedelta(days=6), 28 - 25),
    ],
)
def test_the_range_of_the_charts_can_be_chosen(
    operator: Client, firm: Firm, chosen: str, bars: int, ago: timedelta, place: int
) -> None:
    counted(firm, NOW - ago, dlq=5)
    chart = shown(operator, chosen)["New dead letters"]
    assert len(chart.bars) == bars
    assert filled(chart) == [place]
    assert f"?range={chosen}" in page(operator, chosen).content.decode()


def test_a_range_that_is_not_offered_is_refused(operator: Client) -> None:
    assert operator.get(reverse("admin:index"), {"range": "3y"}).status_code == 400


def test_the_hours_read_what_is_not_folded_yet_and_what_was(operator: Client, firm: Firm) -> None:
    in_transaction(lambda: count([Counted(firm.pk, "sync", "dlq")] * 2))
    assert sum(bar.values["dead"] for bar in shown(operator)["New dead letters"].bars) == 2
    fold_counters()
    in_transaction(lambda: count([Counted(firm.pk, "sync", "dlq")]))
    for chosen in RANGES:
        chart = shown(operator, chosen)["New dead letters"]
        assert sum(bar.values["dead"] for bar in chart.bars) == 3


def test_a_bar_leads_to_the_jobs_it_counts(operator: Client, firm: Firm) -> None:
    def ended(ago: timedelta) -> Any:
        moment = NOW - ago
        return JobQueueFactory(
            job_id=UUID(int=id_at(moment).int + 1),
            firm=firm,
            status="completed",
            completed_at=moment,
        ).pk

    later, earlier, _ = (ended(timedelta(hours=hours)) for hours in (12, 18, 40))
    for hours in (12, 18):
        counted(firm, NOW - timedelta(hours=hours), completed=1, wait_ms=5)
    for title in ("Settled jobs", "Mean time of a job"):
        first, second = (bar for bar in shown(operator)[title].bars if bar.parts)
        for bar, job in ((first, earlier), (second, later)):
            listed = operator.get(bar.href).context["cl"].result_list
            assert [one.pk for one in listed] == [job]


@pytest.mark.parametrize(
    "period",
    [
        "yesterday",
        "2026-11-23T14:00Z",
        "2026-11-23T14:00..2026-11-23T15:00",
        "2026-11-23T15:00Z..2026-11-23T14:00Z",
        "0001-01-01T00:00Z..0001-01-02T00:00Z",
    ],
)
def test_a_list_refuses_what_is_no_period(operator: Client, period: str) -> None:
    for listing, name in (("jobqueue", "settled"), ("deadletterqueue", "moved")):
        address = reverse(f"admin:jobs_{listing}_changelist")
        refused = operator.get(address, {name: period})
        assert refused.status_code == 400
        assert "START..END" in refused.content.decode()


def test_a_bar_of_dead_letters_leads_to_them(operator: Client, acme: FirmRows) -> None:
    with all_firms("test"):
        DeadLetterQueue.objects.update(moved_at=NOW - timedelta(hours=2))
    counted(acme.firm, NOW - timedelta(hours=2), dlq=1)
    (link,) = [bar.href for bar in shown(operator)["New dead letters"].bars if bar.parts]
    found = operator.get(link).context["cl"].result_list
    assert [letter.pk for letter in found] == [acme.dead_letter.pk]


@pytest.mark.req("O-08")
def test_a_new_version_of_the_worker_is_marked(operator: Client, firm: Firm) -> None:
    now = NOW
    WorkerVersion.objects.create(version="1.0", first_seen_at=now - timedelta(hours=9))
    assert shown(operator)["Settled jobs"].deploys == []
    WorkerVersion.objects.create(version="1.1", first_seen_at=now - timedelta(minutes=30))
    (deploy,) = shown(operator)["Settled jobs"].deploys
    assert deploy.label.startswith("1.1 since ")
    assert "1.1 since" in page(operator).content.decode()


@pytest.mark.req("O-08")
@pytest.mark.django_db
def test_a_worker_notes_its_version_once() -> None:
    new_worker(), new_worker()
    assert [one.version for one in WorkerVersion.objects.all()] == ["0"]


def test_times_are_means_over_settled_jobs(operator: Client, firm: Firm) -> None:
    counted(firm, NOW, completed=3, retried=1, wait_ms=8000)
    chart = shown(operator)["Mean time of a job"]
    (bar,) = [bar for bar in chart.bars if bar.parts]
    assert bar.values == {"waiting": 2.0, "running": 0.0}
    assert chart.peak == "2 s in 1 h"


def test_what_is_older_than_the_chart_is_left_out(operator: Client, firm: Firm) -> None:
    counted(firm, NOW - timedelta(hours=25), dlq=5)
    chart = shown(operator)["New dead letters"]
    assert (filled(chart), chart.peak) == ([], "")


@pytest.mark.req("T-03")
def test_charts_count_the_own_firm_alone(member: Client, acme: FirmRows, globex: FirmRows) -> None:
    counted(globex.firm, NOW, dlq=9)
    counted(acme.firm, NOW, completed=7)
    assert filled(shown(member)["New dead letters"]) == []
    assert shown(member)["Settled jobs"].peak == "7 in 1 h"


def test_those_who_see_several_firms_see_which_needs_a_look_first(
    staff: Client, member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    JobQueueFactory(firm=globex.firm, scheduled_at=NOW - timedelta(hours=30))
    JobQueueFactory(firm=globex.firm, status="processing")
    lines = staff.get(reverse("admin:index")).context["firms"]
    assert [(line.name, *(cell.value for cell in line.cells)) for line in lines] == [
        ("Globex", "1", "2", "", "1"),
        ("Acme", "1", "1", "", ""),
    ]
    assert lines[0].oldest_wait == "1 d"
    found = staff.get(lines[0].href).context["cl"].result_list
    assert {job.firm_id for job in found} == {globex.firm.pk}
    assert member.get(reverse("admin:index")).context["firms"] == []


def test_firms_cost_no_query_each(staff: Client, acme: FirmRows) -> None:
    def queries() -> list[dict[str, Any]]:
        with CaptureQueriesContext(connection) as captured:
            staff.get(reverse("admin:index"))
        return captured.captured_queries

    queries()
    few = len(queries())
    for number in range(25):
        JobQueueFactory(firm=FirmFactory(name=f"Firm {number}", slug=f"firm-{number}"))
    assert len(queries()) == few


def test_the_dashboard_never_counts_history(staff: Client, acme: FirmRows) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the plans of small tables say nothing on PostgreSQL")
    with CaptureQueriesContext(connection) as captured:
        staff.get(reverse("admin:index"))
    on_jobs = [
        query["sql"]
        for query in captured.captured_queries
        if 'FROM "jobs_jobqueue"' in query["sql"]
    ]
    plans = [
        " ".join(str(step[3]) for step in table_rows(f"EXPLAIN QUERY PLAN {sql}"))
        for sql in on_jobs
    ]
    # The third query reads only the newest ids, for the rate at which firms enqueue.
    rate = plans.pop()
    assert "job_id>?" in rate, rate
    assert f"LIMIT {MOST_READ}" in on_jobs[-1]
    assert len(plans) == 2
    of_live_jobs = ("job_claim", "job_lane", "job_waiting_group")
    assert all(any(index in plan for index in of_live_jobs) for plan in plans), plans
