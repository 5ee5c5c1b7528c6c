"""Quarantined jobs, which have two deaths, run alone, each in an isolated process."""

from __future__ import annotations

from uuid import UUID

import psutil
import pytest

from jobs.models import Worker
from jobs.queue import cancel, pause
from jobs.states import QUARANTINE_DEATHS, AttemptEnd, Status
from jobs.worker import isolation, prefetch, quarantine, running, worker
from tenants.scope import all_firms
from tests.queue_kit import change
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [
    pytest.mark.processes,
    pytest.mark.req("J-15"),
    pytest.mark.usefixtures("isolated_memory_mb"),
]


def quarantined(queue: Scenario, **options: object) -> UUID:
    """Enqueue a job that has two deaths."""
    (job_id,) = queue.add(**options)  # type: ignore[arg-type]  # as in `add`
    change(job_id, deaths=QUARANTINE_DEATHS)
    return job_id


def test_an_innocent_job_in_quarantine_completes_in_a_process_of_its_own(queue: Scenario) -> None:
    alone, (ordinary,) = quarantined(queue), queue.add()

    worker_loop().run()

    assert queue.statuses() == {Status.COMPLETED: 2}
    pids = {UUID(entry.job_id): entry.pid for entry in queue.journal.starts()}
    assert pids[ordinary] == psutil.Process().pid
    assert pids[alone] != pids[ordinary]
    wait_until(lambda: not psutil.pid_exists(pids[alone]), "the end of the process")


@pytest.mark.req("J-16", "W-03")
def test_cancel_reaches_it_and_a_shutdown_gives_it_back(queue: Scenario) -> None:
    gate = queue.gate()
    canceled = quarantined(queue, gate=gate, job_type="process.patient")
    kept = quarantined(queue, gate=gate)
    with working(worker_loop(concurrency=3, burst=False)):
        queue.wait_until_started(canceled)
        queue.wait_until_started(kept)
        assert {canceled, kept} >= {UUID(one) for one in Worker.objects.get().running}
        cancel(canceled, reason="not needed")
        queue.wait_until_settled([canceled])

    assert queue.row(canceled).status == Status.CANCELED
    stored = queue.row(kept)
    assert (stored.status, stored.attempts, stored.deaths) == (Status.PENDING, 0, 2)
    assert {one.end for one in queue.attempts(kept)} == {AttemptEnd.RELEASED}
    (start,) = queue.journal.starts(job_id=kept)
    wait_until(lambda: not psutil.pid_exists(start.pid), "the end of the process")


@pytest.mark.req("W-03")
def test_what_finds_no_process_stays_in_the_queue_until_there_is_one(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "LONGEST_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(worker, "GIVE_BACK_SECONDS", 0.0)
    gate = queue.gate()
    alone = [quarantined(queue, gate=gate) for _ in range(8)]
    # No poll comes in time, so the rest has to be claimed when a process becomes free.
    with working(worker_loop(concurrency=4, burst=False, poll_seconds=600)):
        wait_until(lambda: len(queue.journal.starts()) == 3, "three processes run a job each")
        # The first claims may have taken more of these jobs, which are then given back.
        wait_until(lambda: queue.statuses(alone)[Status.PENDING] == 5, "the others are back")
        before = [one for job_id in alone for one in queue.attempts(job_id)]
        # Each of these jobs is claimed although the quarantined ones wait in front of it.
        for _ in range(20):
            queue.wait_until_settled(queue.add())
        assert [one for job_id in alone for one in queue.attempts(job_id)] == before
        gate.open()
        queue.wait_until_settled(alone)

    assert queue.statuses() == {Status.COMPLETED: 28}


@pytest.mark.req("J-23")
def test_a_pause_reaches_a_job_that_waits_for_its_process(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = isolation.IsolatedProcess.wait_until_ready

    def paused_meanwhile(process: isolation.IsolatedProcess) -> None:
        ready(process)
        with all_firms("test"):
            pause(reason="maintenance", firm=queue.firm)

    monkeypatch.setattr(isolation.IsolatedProcess, "wait_until_ready", paused_meanwhile)
    monkeypatch.setattr(quarantine, "LONGEST_WAIT_SECONDS", 0.0)
    job_id = quarantined(queue)

    worker_loop().run()

    stored = queue.row(job_id)
    assert (stored.status, stored.attempts, stored.deaths) == (Status.PENDING, 0, 2)
    assert not queue.journal.starts()


@pytest.mark.req("J-14")
def test_one_that_ignores_its_timeout_is_killed_and_the_worker_goes_on(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "INTERRUPT_SECONDS", 0.1)
    job_id = quarantined(queue, job_type="process.stubborn", max_attempts=1)
    loop = worker_loop()

    loop.run()

    assert not loop.state.stuck.is_set()
    stored = queue.row(job_id)
    assert (stored.status, stored.deaths) == (Status.DLQ, 2)
    assert stored.last_error == "timed out after 0.5 seconds"


def test_where_no_process_can_be_had_it_waits_and_loses_nothing(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.worker.isolation.START", "raise SystemExit(3)")
    job_id = quarantined(queue)

    worker_loop().run()

    stored = queue.row(job_id)
    assert (stored.status, stored.attempts, stored.deaths) == (Status.PENDING, 0, 2)
    assert stored.scheduled_at > stored.updated_at
