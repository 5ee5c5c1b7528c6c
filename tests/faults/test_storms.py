"""All jobs of a firm fail and are retried at once: other firms do not notice."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from jobs.models import DeadLetterQueue, JobQueue
from jobs.queue import EnqueueSpec, enqueue, retry
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes

# How many jobs fail, and for how many seconds another firm's job may wait meanwhile: in the suite,
# which runs on busy machines, and in `make chaos`.
SUITE = (60, 30.0)
CHAOS = (3_000, 2.0)
ATTEMPTS = 2
PROBES = 3


@pytest.mark.req("J-10", "J-12", "J-17", "J-23")
def test_a_storm_of_failures_and_of_second_tries_delays_nobody_else(
    queue: Scenario, other_firm: Firm, fleet: Fleet, chaos: bool
) -> None:
    count, most_seconds = CHAOS if chaos else SUITE
    payload = {"journal": str(queue.journal.path), "how": "error", "times": 99}
    worker = fleet.start().wait_until_started()

    failing = queue.enqueue([EnqueueSpec("process.fail", payload, max_attempts=ATTEMPTS)] * count)
    probe(queue, other_firm, most_seconds)
    wait_until_dead(queue, failing)
    queue.wait_until_settled()
    queue.check(expected_dead=failing)
    for job_id in failing:
        retry(job_id, reason="again")
    probe(queue, other_firm, most_seconds)
    wait_until_dead(queue, failing)

    assert worker.alive
    with all_firms("looking at the queue"):
        ends = JobQueue.objects.filter(pk__in=failing).values_list("attempts", "deaths")
        assert set(ends) == {(ATTEMPTS, 0)}
        assert DeadLetterQueue.objects.count() == 2 * count
    fleet.stop()


def probe(queue: Scenario, firm: Firm, most_seconds: float) -> None:
    """Check that jobs of another firm start soon, one after the other."""
    payload = {"journal": str(queue.journal.path)}
    for _ in range(PROBES):
        added_at = time.monotonic()
        job_id = enqueue("process.work", payload, firm=firm).job_id
        queue.accepted.append(job_id)
        queue.wait_until_started(job_id)
        (start,) = queue.journal.starts(job_id=job_id)
        assert start.at - added_at < most_seconds


def wait_until_dead(queue: Scenario, jobs: list[UUID]) -> None:
    expected = {Status.DLQ: len(jobs)}
    wait_until(
        lambda: queue.statuses(jobs) == expected, "all dead letters", timeout=90 + len(jobs) / 20
    )
