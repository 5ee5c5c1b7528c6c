"""A thread that a handler leaves running does not keep the worker's process from ending."""

from __future__ import annotations

import pytest

from jobs.management.own_process import LEFT_BEHIND_SECONDS
from jobs.states import Status
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes


@pytest.mark.req("W-04")
def test_a_burst_ends_though_a_handler_left_a_thread_running(queue: Scenario, fleet: Fleet) -> None:
    (job_id,) = queue.add(job_type="process.leaves_thread")
    worker = fleet.start("--burst")
    worker.wait_for("worker.stopped")
    assert worker.wait_for_exit(LEFT_BEHIND_SECONDS + 30) == 0
    assert queue.row(job_id).status == Status.COMPLETED
    assert "a handler left a thread or an exit hook behind" in worker.said()
