"""SIGHUP, which a closing terminal sends, ends a worker in order unless the worker ignores it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from jobs.models import Worker
from jobs.states import Status
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, WorkerProcess

pytestmark = pytest.mark.processes

MARGIN_SECONDS = 20.0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=["first", "after SIGTERM"])
def test_a_hangup_of_its_group_ends_it_in_order_however_often_it_comes(
    queue: Scenario, fleet: Fleet, number: signal.Signals
) -> None:
    gate = queue.gate()
    jobs = queue.add(2, gate=gate)
    worker = fleet.start("--concurrency", "1", supervised=True)
    wait_until(queue.journal.starts, "a job started")

    worker.tell_group(number)
    worker.wait_for("worker.stopping")
    # A session that ends sends SIGHUP to both, and so does a service manager with SendSIGHUP.
    for _ in range(3):
        worker.tell_group(signal.SIGHUP)
        wait_until(lambda: not _hangup_is_pending(worker), "the supervisor took the group's")
        worker.tell(signal.SIGHUP)
        wait_until(lambda: not _hangup_is_pending(worker), "the supervisor took its own")
    assert worker.alive
    gate.open()

    assert worker.wait_for_exit(MARGIN_SECONDS) == 0
    (done,) = {one.job_id for one in queue.journal.starts()}
    (other,) = {str(one) for one in jobs} - {done}
    rows = {str(one): queue.row(one) for one in jobs}
    assert (rows[done].status, rows[done].attempts) == (Status.COMPLETED, 1)
    assert (rows[other].status, rows[other].attempts) == (Status.PENDING, 0)
    assert not Worker.objects.exists()
    queue.check()


def test_it_ends_in_order_when_its_terminal_goes_away(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    worker = fleet.start(supervised=True, terminal=True)
    queue.wait_until_started(job_id)

    worker.lose_terminal()
    worker.wait_for("worker.stopping")
    gate.open()

    assert worker.wait_for_exit(MARGIN_SECONDS) == 0
    assert (queue.row(job_id).status, queue.row(job_id).attempts) == (Status.COMPLETED, 1)
    assert not Worker.objects.exists()


def test_under_nohup_it_works_on(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    worker = _start_ignoring_hangups(fleet)
    queue.wait_until_started(job_id)

    worker.tell_group(signal.SIGHUP)
    gate.open()
    queue.wait_until_settled()
    queue.add(3)
    queue.wait_until_settled()

    assert queue.row(job_id).attempts == 1
    assert worker.alive
    assert not worker.events("worker.stopping")
    fleet.stop()
    queue.check()


def _hangup_is_pending(worker: WorkerProcess) -> bool:
    status = Path(f"/proc/{worker.session}/status").read_text(encoding="ascii")
    (pending,) = (line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) >> (signal.SIGHUP - 1) & 1)


def _start_ignoring_hangups(fleet: Fleet) -> WorkerProcess:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        return fleet.start(supervised=True)
    finally:
        signal.signal(signal.SIGHUP, before)
