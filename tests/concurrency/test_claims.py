"""Many workers on one queue: no job is run by two of them."""

from __future__ import annotations

import pytest

from jobs.states import Status
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes

WORKERS = 4
JOBS = 2_000
# Else the first that hears of them may be done before the others are awake.
JOB_SECONDS = 0.002


@pytest.mark.req("J-08", "J-09")
def test_four_workers_share_two_thousand_jobs_and_start_each_once(
    queue: Scenario, fleet: Fleet
) -> None:
    workers = fleet.start_many(WORKERS)

    jobs = queue.add(JOBS, seconds=JOB_SECONDS)
    queue.wait_until_settled()
    fleet.stop()

    starts = queue.journal.starts()
    assert sorted(start.job_id for start in starts) == sorted(map(str, jobs))
    assert len({start.session for start in starts} & {one.session for one in workers}) > 1
    assert queue.statuses() == {Status.COMPLETED: JOBS}
    assert {queue.row(job_id).attempts for job_id in jobs[:50]} == {1}
    queue.check()
