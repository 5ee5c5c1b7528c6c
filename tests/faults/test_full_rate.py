"""Workers reach their rate again within seconds after the server crashed."""

from __future__ import annotations

import time

import pytest
from django.db import connection

from jobs.models import JobQueue
from tenants.scope import all_firms
from tests.postgres import Server
from tests.support.databases import postgresql_only
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, postgresql_only]

WORKERS = 2
CONCURRENCY = 4
# Jobs are so slow that the workers determine the rate, not the machine.
JOB_SECONDS = 0.05
LEASE_SECONDS = 30.0
WINDOW_SECONDS = 2.0
BACK_SECONDS = 10.0
BACK_SHARE = 0.95
CRASHES = 20


@pytest.mark.req("W-04", "J-14")
def test_the_rate_is_back_within_seconds_of_the_servers_return(
    queue_on_own_server: Scenario, own_server: Server, fleet: Fleet, chaos: bool
) -> None:
    if not chaos:
        pytest.skip("takes minutes: the short form is the crash under load")
    queue = queue_on_own_server
    workers = fleet.start_many(
        WORKERS, "--concurrency", str(CONCURRENCY), lease_seconds=LEASE_SECONDS
    )
    most_per_second = WORKERS * CONCURRENCY / JOB_SECONDS

    for _ in range(CRASHES):
        queue.add(int(most_per_second * (2 * WINDOW_SECONDS + BACK_SECONDS)), seconds=JOB_SECONDS)
        usual = wait_for_rate(queue, 0.5 * most_per_second)
        own_server.crash()
        own_server.start()
        connection.close()
        wait_for_rate(queue, BACK_SHARE * usual, timeout=BACK_SECONDS)

    assert all(worker.alive for worker in workers)
    assert not any(worker.events("jobs.rescued") for worker in workers)
    fleet.stop()
    with all_firms("looking at the queue"):
        assert not JobQueue.objects.filter(deaths__gt=0).exists()
    queue.check()


def wait_for_rate(queue: Scenario, least: float, *, timeout: float = 20.0) -> float:
    """Wait for a stretch of time, not earlier than now, with at least that many ends per second."""
    begun = time.monotonic()

    def rate() -> float:
        now = time.monotonic()
        since = max(now - WINDOW_SECONDS, begun)
        ended = sum(one.what == "end" and one.at > since for one in queue.journal.entries())
        found = ended / WINDOW_SECONDS
        return found if found >= least else 0.0

    return wait_until(rate, f"{least:g} jobs per second", timeout=timeout)
