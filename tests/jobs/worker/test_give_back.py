"""Claimed jobs that would wait go back, so that a pause holds them or another worker runs them."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest

from jobs.engine.clock import database_now
from jobs.models import JobQueue
from jobs.queue import cancel, enqueue, pause
from jobs.states import IN_FLIGHT, Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.support.prefetch import claim_ahead
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-02")]

WARM_UP_JOBS = 300


def warm(queue: Scenario, fleet: Fleet, *, workers: int, concurrency: int) -> None:
    """Start workers, and let each of them run many short jobs."""
    for _ in range(workers):
        fleet.start("--concurrency", str(concurrency)).wait_until_started()
        queue.add(WARM_UP_JOBS)
        queue.wait_until_settled()


def starts_by_process(queue: Scenario, jobs: list[UUID]) -> Counter[int]:
    ids = {str(job_id) for job_id in jobs}
    return Counter(entry.pid for entry in queue.journal.starts() if entry.job_id in ids)


def cancel_claimed(jobs: list[UUID]) -> list[UUID]:
    """Cancel some of these jobs; return those that a worker had claimed."""
    with all_firms("test"):
        claimed = JobQueue.objects.filter(pk__in=jobs, status__in=IN_FLIGHT)
        ids = list(claimed.values_list("pk", flat=True)[:10])
        return [one for one in ids if cancel(one, reason="not needed").status in IN_FLIGHT]


def test_jobs_that_turn_out_slow_are_shared_among_workers(queue: Scenario, fleet: Fleet) -> None:
    warm(queue, fleet, workers=2, concurrency=3)

    # Enough jobs for the other worker to begin seconds late on a busy machine, but few enough to be
    # claimed at once.
    slow = queue.add(180, seconds=0.2)
    queue.wait_until_settled(slow)

    shares = starts_by_process(queue, slow)
    assert len(shares) == 2
    assert min(shares.values()) >= 30, shares
    queue.check()


def test_a_critical_job_begins_before_what_was_claimed_ahead(
    queue: Scenario, fleet: Fleet, other_firm: Firm
) -> None:
    warm(queue, fleet, workers=1, concurrency=2)
    slow = queue.add(100, seconds=0.3)
    wait_until(lambda: starts_by_process(queue, slow).total() >= 2, "the first slow jobs")

    payload = {"journal": str(queue.journal.path), "label": "", "gate": "", "seconds": 0.0}
    critical = enqueue("process.work", payload, firm=other_firm, priority=0).job_id
    added_at = time.monotonic()
    queue.wait_until_started(critical)

    (start,) = queue.journal.starts(job_id=critical)
    # Each of the two threads begins about three jobs a second.
    assert sum(added_at < one.at < start.at for one in queue.journal.starts()) <= 12


def test_a_canceled_job_that_was_claimed_ahead_does_not_begin(
    queue: Scenario, fleet: Fleet
) -> None:
    ahead = claim_ahead(queue, fleet, keeps=False)
    # The jobs may have been given back just now; then they are claimed again a moment later.
    claimed = wait_until(lambda: cancel_claimed(ahead.behind), "a cancel that meets a claim")

    wait_until(lambda: not queue.statuses(ahead.behind).keys() & IN_FLIGHT, "what waits to go back")
    ahead.gate.open()
    queue.wait_until_settled()

    assert queue.statuses(claimed) == {Status.CANCELED: len(claimed)}
    assert starts_by_process(queue, claimed).total() == 0
    queue.check()


@pytest.mark.req("J-23")
def test_a_pause_reaches_what_was_claimed_ahead(queue: Scenario, fleet: Fleet) -> None:
    warm(queue, fleet, workers=1, concurrency=2)
    slow = queue.add(100, seconds=0.3)
    wait_until(lambda: starts_by_process(queue, slow).total() >= 2, "the first slow jobs")

    with all_firms("test"):
        pause(reason="maintenance", firm=queue.firm)
    before = starts_by_process(queue, slow).total()
    wait_until(lambda: not queue.statuses(slow).keys() & IN_FLIGHT, "what waits to go back")

    # Each of the two threads begins about three jobs a second.
    assert starts_by_process(queue, slow).total() - before <= 12
    assert queue.statuses(slow)[Status.PENDING] >= 50


@pytest.mark.req("J-08")
def test_a_job_that_expires_after_its_claim_does_not_begin(queue: Scenario, fleet: Fleet) -> None:
    queue.add(WARM_UP_JOBS)
    fleet.start("--concurrency", "1")
    queue.wait_until_settled()
    expires_at = database_now() + timedelta(seconds=2)
    first = queue.add(1, seconds=2.5, priority=0)
    queue.wait_until_started(first[0])
    brief = queue.add(20, expires_at=expires_at)

    queue.wait_until_settled()

    assert queue.statuses(brief).keys() <= {Status.CANCELED, Status.FAILED}
    assert starts_by_process(queue, brief).total() == 0
