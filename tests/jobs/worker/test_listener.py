"""An idle worker that polls rarely still notices a new job at once."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from django.db import connection

from tests.support.databases import listeners, postgresql_only
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-02")]

RARELY_SECONDS = 30
# Well before the next poll, and enough time for a busy machine.
AT_ONCE_SECONDS = 20.0
# Pauses between enqueues, shorter and longer than the least pause between two notifications.
GAPS_SECONDS = (0.0, 0.005, 0.015, 0.03, 0.1)


def test_an_idle_worker_notices_each_new_job_at_once(queue: Scenario, fleet: Fleet) -> None:
    worker = fleet.start("--poll-interval", str(RARELY_SECONDS)).wait_until_started()
    if connection.vendor == "postgresql":
        wait_until(listeners, "the worker to listen")

    for gap in GAPS_SECONDS:
        time.sleep(gap)
        enqueued_at = time.monotonic()
        (job_id,) = queue.add()
        queue.wait_until_started(job_id)
        (start,) = queue.journal.starts(job_id=job_id)
        assert start.at - enqueued_at < AT_ONCE_SECONDS

    assert worker.alive


@pytest.mark.req("J-20")
def test_a_released_key_is_handed_on_at_once(queue: Scenario, fleet: Fleet) -> None:
    fleet.start("--poll-interval", str(RARELY_SECONDS)).wait_until_started()

    queue.add(5, lock_key="key", label="key")
    queue.wait_until_settled()

    starts = [start.at for start in queue.journal.starts()]
    assert len(starts) == 5
    assert all(later - earlier < AT_ONCE_SECONDS for earlier, later in pairwise(starts))


def test_a_retry_is_noticed_when_it_is_due(queue: Scenario, fleet: Fleet) -> None:
    fleet.start()
    job_id = queue.add_failing("error", times=2)

    queue.wait_until_settled()

    times = [start.at for start in queue.journal.starts(job_id=job_id)]
    assert len(times) == 3
    assert times[2] - times[0] < 10


@postgresql_only
def test_a_worker_told_not_to_listen_polls(queue: Scenario, fleet: Fleet) -> None:
    wait_until(lambda: not listeners(), "the end of another test's listener")
    fleet.start("--poll-interval", "0.2", LISTEN_DATABASE_URL="off").wait_until_started()

    for _ in range(3):
        (job_id,) = queue.add()
        queue.wait_until_started(job_id)

    assert listeners() == 0
    assert len(queue.journal.starts()) == 3
