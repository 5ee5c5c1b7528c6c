"""A firm is deactivated, or all its rows are deleted, while workers run its jobs."""

from __future__ import annotations

import pytest

from jobs.models import Attempt, DeadLetterQueue, JobQueue
from jobs.queue import enqueue
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes

CONCURRENCY = ("--concurrency", "2")
RUNNING = 2
BEHIND = 20


@pytest.mark.req("T-04", "J-23")
def test_running_jobs_of_a_deactivated_firm_finish_and_nothing_new_starts(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    running = queue.add(RUNNING, gate=gate, priority=0)
    behind = queue.add(BEHIND)
    fleet.start(*CONCURRENCY)
    wait_until(lambda: len(queue.journal.starts()) == RUNNING, "both at work")

    Firm.objects.filter(pk=queue.firm.pk).update(active=False)
    wait_until(lambda: all(queue.row(job_id).waiting for job_id in behind), "the others wait again")
    gate.open()
    queue.wait_until_settled(running)

    assert queue.statuses(behind) == {Status.PENDING: BEHIND}
    assert len(queue.journal.starts()) == RUNNING
    Firm.objects.filter(pk=queue.firm.pk).update(active=True)
    queue.wait_until_settled()
    assert queue.statuses() == {Status.COMPLETED: RUNNING + BEHIND}
    fleet.stop()
    queue.check()


@pytest.mark.req("J-09", "T-04")
def test_jobs_of_a_deleted_firm_do_not_come_back_and_its_worker_goes_on(
    queue: Scenario, other_firm: Firm, fleet: Fleet
) -> None:
    gate = queue.gate()
    queue.add(RUNNING, gate=gate, priority=0)
    queue.add(BEHIND)
    worker = fleet.start(*CONCURRENCY)
    wait_until(lambda: len(queue.journal.starts()) == RUNNING, "both at work")

    with all_firms("deleting a firm"):
        JobQueue.objects.filter(firm=queue.firm).delete()
        queue.firm.delete()
    queue.accepted.clear()
    gate.open()
    theirs = enqueue("noop", firm=other_firm).job_id
    queue.accepted.append(theirs)
    queue.wait_until_settled()
    wait_until(lambda: len(worker.events("job.attempt_stale")) == RUNNING, "both told")
    fleet.stop()

    assert queue.row(theirs).status == Status.COMPLETED
    with all_firms("looking for leftovers"):
        for model in (JobQueue, Attempt, DeadLetterQueue):
            assert not model.objects.exclude(firm=other_firm).exists()
