"""Old and new builds serve one queue while processes are replaced: that uses no attempt."""

from __future__ import annotations

import signal
from random import Random

import pytest
from django.db.models import F

from jobs.models import JobQueue
from jobs.queue import EnqueueSpec
from jobs.states import Status
from tenants.scope import all_firms
from tests.queue_kit import change
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, WorkerProcess

pytestmark = [pytest.mark.processes, pytest.mark.req("J-12", "J-14", "W-03")]

OLD = "tests.support.old_build_settings"
WORKERS = 2
CONCURRENCY = ("--concurrency", "4")
# How often a process is replaced, and with how many jobs each time: in the suite, and in
# `make chaos`.
SUITE = (2, 30)
CHAOS = (100, 60)
JOB_SECONDS = 0.01


def test_replacing_old_processes_by_new_ones_uses_no_attempt(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    replacements, jobs = CHAOS if chaos else SUITE
    rng = Random(13)
    workers = [fleet.start(*CONCURRENCY, DJANGO_SETTINGS_MODULE=OLD) for _ in range(WORKERS)]
    for worker in workers:
        worker.wait_until_started()
    ahead = queue.add(5)
    (newest,) = queue.add()
    change(newest, payload_version="99.0")
    wait_until(lambda: all(map(queue.attempts, ahead)), "new work handed back by old code")

    for number in range(replacements):
        queue.add(jobs, seconds=JOB_SECONDS)
        queue.enqueue([EnqueueSpec("noop")] * jobs)
        leaving = workers.pop(0 if number < WORKERS else rng.randrange(WORKERS))
        workers.append(replacement(fleet))
        leaving.tell(signal.SIGTERM)
        assert leaving.wait_for_exit(90) == 0

    bring_forward()
    known = [job_id for job_id in queue.accepted if job_id != newest]
    queue.wait_until_settled(known, timeout=300)
    wait_until(lambda: len(queue.attempts(newest)) > 1, "handed back by new code too")
    assert queue.row(newest).status == Status.PENDING
    assert queue.journal.starts(job_id=newest) == []
    change(newest, payload_version="1.0", scheduled_at=queue.row(newest).created_at)
    queue.wait_until_settled()
    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    with all_firms("looking at the queue"):
        assert set(JobQueue.objects.values_list("attempts", "deaths")) == {(1, 0)}
    fleet.stop()
    queue.check()


def replacement(fleet: Fleet) -> WorkerProcess:
    return fleet.start(*CONCURRENCY).wait_until_started()


def bring_forward() -> None:
    """Make jobs due that were handed back for newer code, because that code runs now."""
    with all_firms("the test does not wait"):
        JobQueue.objects.filter(status=Status.PENDING).update(scheduled_at=F("created_at"))
