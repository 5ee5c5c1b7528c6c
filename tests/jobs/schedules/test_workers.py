"""Worker processes run schedules, unless they are told not to."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from jobs.models import Schedule
from jobs.operations.schedules import create_schedule
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.jobs.schedules.kit import doubles, jobs, now
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("S-01", "S-02", "W-01")]


def names() -> set[str]:
    with all_firms("test"):
        return set(Schedule.objects.values_list("name", flat=True))


def test_a_worker_stores_what_ships_and_runs_what_is_due(
    queue: Scenario, fleet: Fleet, system_firm: Firm
) -> None:
    row = create_schedule("every second", "noop", firm=queue.firm, interval_seconds=1)
    worker, _ = fleet.start_many(2)
    wait_until(lambda: len(jobs()) >= 3, "three runs")
    wait_until(lambda: queue.statuses()[Status.COMPLETED] >= 3, "their jobs' end")
    fleet.stop()
    shipped = {"Purge old jobs", "Alert to new failures", "Alert to unreviewed dead letters"}
    assert names() == {"every second", *shipped}
    assert doubles(job.idempotency_key for job in jobs()) == []
    assert now(row).last_error == ""
    assert worker.events("worker.maintenance_failed") == []


def test_a_worker_without_scheduler_and_a_burst_run_none(
    queue: Scenario, fleet: Fleet, system_firm: Firm
) -> None:
    row = create_schedule("every second", "noop", firm=queue.firm, interval_seconds=1)
    worker = fleet.start("--no-scheduler").wait_until_started()
    (job_id,) = queue.add()
    queue.wait_until_settled([job_id])
    call_command("runworker", burst=True)
    wait_until(lambda: len(worker.events("job.attempt_finished")) == 1, "its one job")
    fleet.stop()
    assert queue.statuses() == {Status.COMPLETED: 1}
    assert names() == {"every second"}
    assert now(row).last_run_at is None
