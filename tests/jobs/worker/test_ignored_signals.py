"""SIGUSR1 and SIGUSR2, which a rule of logrotate for other servers may send, end no process."""

from __future__ import annotations

import os

import pytest

from jobs.states import QUARANTINE_DEATHS, Status
from jobs.worker.signals import IGNORED_SIGNALS
from tests.queue_kit import change
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-05")]


def test_nothing_ends(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    plain, isolated = queue.add(2, gate=gate)
    change(isolated, deaths=QUARANTINE_DEATHS)
    worker = fleet.start("--concurrency", "2", supervised=True)
    wait_until(lambda: len(queue.journal.starts()) == 2, "both jobs")

    for number in IGNORED_SIGNALS:
        worker.tell_group(number)
        for start in queue.journal.starts():
            os.kill(start.pid, number)
    gate.open()
    queue.wait_until_settled()

    assert worker.alive
    for job_id, deaths in ((plain, 0), (isolated, QUARANTINE_DEATHS)):
        job = queue.row(job_id)
        assert (job.status, job.attempts, job.deaths) == (Status.COMPLETED, 1, deaths)
    assert not worker.events("worker.stopping")
    fleet.stop()
    change(isolated, deaths=0)
    queue.check()
