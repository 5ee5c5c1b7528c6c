"""Jobs with one lock key never run at once, whichever process runs them."""

from __future__ import annotations

import time

import pytest

from jobs.states import Status
from tests.support.invariants import check_exclusion
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = pytest.mark.processes

KEYS = 4
JOBS_PER_KEY = 30
JOB_SECONDS = 0.005


@pytest.mark.req("J-20", "J-14")
def test_jobs_of_one_key_never_overlap_not_even_when_a_worker_is_killed(
    queue: Scenario, fleet: Fleet
) -> None:
    doomed, _ = fleet.start_many(2, lease_seconds=SHORT_LEASE_SECONDS)
    for key in (f"key-{number}" for number in range(KEYS)):
        queue.add(JOBS_PER_KEY, lock_key=key, label=key, seconds=JOB_SECONDS)

    wait_until(lambda: len(queue.journal.starts(session=doomed.session)) > KEYS, "some keyed jobs")
    doomed.kill()
    killed_at = time.monotonic()
    queue.wait_until_settled()
    fleet.stop()

    assert queue.statuses() == {Status.COMPLETED: KEYS * JOBS_PER_KEY}
    check_exclusion(queue.journal, deaths=[killed_at])
    assert len({start.session for start in queue.journal.starts()}) == 2
    queue.check()
