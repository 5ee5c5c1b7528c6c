"""Workers that an operator asks to claim nothing, to drain or to stop."""

from __future__ import annotations

import pytest

from jobs.models import Worker
from jobs.operations import workers
from jobs.states import Status
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-05", "W-03")]


def test_a_quiet_worker_claims_nothing_until_it_is_resumed(queue: Scenario, fleet: Fleet) -> None:
    process = fleet.start(lease_seconds=SHORT_LEASE_SECONDS).wait_until_started()
    worker = Worker.objects.get()
    workers.quiet(worker)
    process.wait_for("worker.asked")
    first, second = queue.add(2)
    # The worker reads the request with each heartbeat, so it has read it before it writes the next.
    beat = Worker.objects.get().heartbeat_at
    wait_until(lambda: Worker.objects.get().heartbeat_at > beat, "a heartbeat")
    assert {queue.row(job).status for job in (first, second)} == {Status.PENDING}
    workers.resume(worker)
    queue.wait_until_settled()
    assert process.alive
    fleet.stop()
    queue.check()


def test_a_drained_process_finishes_what_it_runs_and_is_not_replaced(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (slow,) = queue.add(gate=gate)
    parent = fleet.start(
        *("--processes", "2", "--grace", "0"), supervised=True, lease_seconds=SHORT_LEASE_SECONDS
    )
    queue.wait_until_started(slow)
    (start,) = queue.journal.starts()
    wait_until(lambda: Worker.objects.count() == 2, "two workers")
    drained = Worker.objects.get(pid=start.pid)
    other = Worker.objects.exclude(pid=start.pid).get()
    workers.drain(drained)
    parent.wait_for("worker.stopping")
    # A drain has no grace period: the job goes on beyond the next heartbeat.
    beat = Worker.objects.get(pk=drained.pk).heartbeat_at
    wait_until(lambda: Worker.objects.get(pk=drained.pk).heartbeat_at > beat, "a heartbeat")
    assert queue.row(slow).status in {Status.CLAIMED, Status.PROCESSING}
    gate.open()
    queue.wait_until_settled()
    assert parent.wait_for("worker.not_replaced")["pid"] == start.pid
    assert (queue.row(slow).status, queue.row(slow).attempts) == (Status.COMPLETED, 1)
    queue.add(3)
    queue.wait_until_settled()
    assert [worker.pk for worker in Worker.objects.all()] == [other.pk]
    workers.on_host("stop", other.host)
    wait_until(lambda: not parent.alive, "the end of the supervisor, which has nobody left")
    queue.check()


def test_a_stopped_worker_releases_what_outlasts_the_grace(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    (slow,) = queue.add(gate=gate)
    parent = fleet.start(*("--grace", "0"), supervised=True, lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(slow)
    workers.stop(Worker.objects.get())
    wait_until(lambda: not parent.alive, "the end of the worker and its supervisor")
    job = queue.row(slow)
    assert (job.status, job.attempts) == (Status.PENDING, 0)
    gate.open()
