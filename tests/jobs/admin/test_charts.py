"""The dashboard's charts and its table of firms."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobs.admin.charts import BAR_COUNT, BAR_MINUTES, COLOURS, Chart
from jobs.models import JobMinute
from tenants.models import Firm
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import FirmFactory
from tests.jobs.admin.conftest import FirmRows
from tests.queue_kit import table_rows

pytestmark = pytest.mark.req("O-03")


def counted(firm: Firm, moment: datetime, **counters: int) -> None:
    """Let this have been counted in a minute."""
    with all_firms("test"):
        JobMinute.objects.create(
            firm=firm,
            category="sync",
            minute=moment.replace(second=0, microsecond=0),
            **counters,
        )


def shown(client: Client) -> dict[str, Chart]:
    response = client.get(reverse("admin:index"))
    assert response.status_code == 200
    return {chart.title: chart for chart in response.context["charts"]}


def bars(chart: Chart) -> list[dict[str, float]]:
    """Return what each bar shows, by series."""
    data = json.loads(chart.data)
    columns = [dataset["data"] for dataset in data["datasets"]]
    names = [dataset["label"] for dataset in data["datasets"]]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def filled(chart: Chart) -> list[int]:
    """Return the places of the bars that are drawn."""
    return [place for place, bar in enumerate(bars(chart)) if any(bar.values())]


def test_minutes_add_up_to_stacked_bars_and_the_highest_is_named(
    operator: Client, firm: Firm
) -> None:
    now = timezone.now()
    counted(firm, now, completed=6, failed=1, dlq=1, wait_ms=4000, run_ms=12_000)
    counted(firm, now - timedelta(minutes=5 * BAR_MINUTES), completed=4)
    charts = shown(operator)
    settled = charts["Settled jobs"]
    data = json.loads(settled.data)
    assert len(bars(settled)) == len(data["labels"]) == BAR_COUNT
    minute = now.minute - now.minute % BAR_MINUTES
    assert data["labels"][-1] == f"{now:%H}:{minute:02}"
    assert bars(settled)[-1] == {"completed": 13, "failed": 2}
    assert settled.peak == "15 in 10 min"
    colours = [(dataset["backgroundColor"], dataset["stack"]) for dataset in data["datasets"]]
    assert colours == [
        (COLOURS["success"], "Settled jobs"),
        (COLOURS["danger"], "Settled jobs"),
    ]
    assert filled(settled) == [BAR_COUNT - 6, BAR_COUNT - 1]
    assert filled(charts["New dead letters"]) == [BAR_COUNT - 1]


def test_times_are_means_over_settled_jobs(operator: Client, firm: Firm) -> None:
    counted(firm, timezone.now() - timedelta(hours=1), completed=3, retried=1, wait_ms=8000)
    chart = shown(operator)["Mean time of a job"]
    (bar,) = [bar for bar in bars(chart) if any(bar.values())]
    assert bar == {"waiting (s)": 2.0, "running (s)": 0.0}
    assert chart.peak == "2 s"


def test_what_is_older_than_the_chart_is_left_out(operator: Client, firm: Firm) -> None:
    counted(firm, timezone.now() - timedelta(hours=6, minutes=11), dlq=5)
    chart = shown(operator)["New dead letters"]
    assert (filled(chart), chart.peak) == ([], "")


@pytest.mark.req("T-03")
def test_charts_count_the_own_firm_alone(member: Client, acme: FirmRows, globex: FirmRows) -> None:
    counted(globex.firm, timezone.now() - timedelta(hours=1), dlq=9)
    assert filled(shown(member)["New dead letters"]) == []
    assert shown(member)["Settled jobs"].peak == "7 in 10 min"


def test_those_who_see_several_firms_see_which_needs_a_look_first(
    staff: Client, member: Client, acme: FirmRows, globex: FirmRows
) -> None:
    JobQueueFactory(firm=globex.firm, scheduled_at=timezone.now() - timedelta(hours=3))
    JobQueueFactory(firm=globex.firm, status="processing")
    lines = staff.get(reverse("admin:index")).context["firms"]
    assert [(line.name, *(cell.value for cell in line.cells)) for line in lines] == [
        ("Globex", "1", "2", "", "1"),
        ("Acme", "1", "1", "", ""),
    ]
    assert lines[0].oldest_wait == "3 h"
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
    assert len(plans) == 2
    of_live_jobs = ("job_claim", "job_lane", "job_waiting_group")
    assert all(any(index in plan for index in of_live_jobs) for plan in plans), plans
