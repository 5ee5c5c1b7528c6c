"""Many workers on one queue: no two of them run the same job."""

from __future__ import annotations

import pytest

from jobs.states import Status
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes

WORKERS = 4
CONCURRENCY = 3
JOBS = 2_000
JOB_SECONDS = 0.002
# One job more than three workers can run, so that all four have to be awake.
HELD = (WORKERS - 1) * CONCURRENCY + 1


@pytest.mark.req("J-08", "J-09")
def test_four_workers_share_two_thousand_jobs_and_start_each_once(
    queue: Scenario, fleet: Fleet
) -> None:
    workers = fleet.start_many(WORKERS, "--concurrency", str(CONCURRENCY))
    gate = queue.gate()
    jobs = queue.add(HELD, gate=gate, priority=0)
    wait_until(lambda: len(queue.journal.starts()) == HELD, "all workers to be busy")

    jobs += queue.add(JOBS - HELD, seconds=JOB_SECONDS)
    gate.open()
    queue.wait_until_settled()
    fleet.stop()

    starts = queue.journal.starts()
    assert sorted(start.job_id for start in starts) == sorted(map(str, jobs))
    assert {start.session for start in starts} == {one.session for one in workers}
    assert queue.statuses() == {Status.COMPLETED: JOBS}
    assert {queue.row(job_id).attempts for job_id in jobs[:50]} == {1}
    queue.check()
