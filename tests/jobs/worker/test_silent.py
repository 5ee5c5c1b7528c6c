"""A handler that holds the interpreter's lock, so that no other thread of its process can run."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psutil  # type: ignore[import-untyped]  # its types are a package of their own
import pytest

from jobs.conf import lease_seconds
from jobs.states import Status
from jobs.worker.running import INTERRUPT_SECONDS
from jobs.worker.running_slots import RunningSlots
from jobs.worker.supervisor import LEAST_SILENT_SECONDS, SILENT_LEASES, Child, Supervisor
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = pytest.mark.req("J-14", "W-04")

LEASE_SECONDS = 2.0
HOLD_SECONDS = 3 * LEASE_SECONDS
GRACE_SECONDS = 5.0


@pytest.mark.processes
def test_it_may_last_longer_than_the_lease_and_its_neighbours_lose_nothing(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (neighbour,) = queue.add(gate=gate)
    worker = fleet.start("--concurrency", "2", supervised=True, lease_seconds=LEASE_SECONDS)
    queue.wait_until_started(neighbour)
    (holding,) = queue.add(job_type="process.hold", seconds=HOLD_SECONDS)
    queue.wait_until_started(holding)
    other = fleet.start("--job-type", "process.document", lease_seconds=LEASE_SECONDS)
    other.wait_until_started()

    queue.wait_until_settled([holding])
    gate.open()
    queue.wait_until_settled()

    assert not other.events("jobs.rescued")
    assert not worker.events("worker.marked_dead")
    for job_id in (neighbour, holding):
        assert (queue.row(job_id).attempts, queue.row(job_id).deaths) == (1, 0)
    fleet.stop()
    queue.check()


@pytest.mark.processes
@pytest.mark.req("J-09")
def test_a_process_that_was_stopped_gets_no_such_help(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    worker = fleet.start("--concurrency", "1", supervised=True, lease_seconds=LEASE_SECONDS)
    queue.wait_until_started(job_id)
    (start,) = queue.journal.starts(job_id=job_id)

    os.kill(start.pid, signal.SIGSTOP)
    other = fleet.start(lease_seconds=LEASE_SECONDS)
    other.wait_for("jobs.rescued")
    os.kill(start.pid, signal.SIGCONT)
    worker.wait_for("worker.marked_dead")
    gate.open()
    queue.wait_until_settled()

    assert worker.alive
    assert not worker.events("worker.killed")
    assert queue.row(job_id).deaths == 1
    fleet.stop()
    queue.check()


@pytest.mark.processes
def test_its_process_is_killed_when_its_timeout_is_over(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    if not chaos:
        pytest.skip("a supervisor is patient with such a handler: longer than the suite is")
    (holding,) = queue.add(job_type="process.hold_overdue", seconds=600, max_attempts=1)
    worker = fleet.start(supervised=True, lease_seconds=LEASE_SECONDS)
    queue.wait_until_started(holding)
    (start,) = queue.journal.starts(job_id=holding)

    worker.wait_for("worker.killed", timeout=INTERRUPT_SECONDS + 10)
    wait_until(lambda: not psutil.pid_exists(start.pid), "the end of the process")
    wait_until(lambda: queue.row(holding).status == Status.DLQ, "its dead letter")

    (killed,) = worker.events("worker.killed")
    assert killed["reason"] == "job_overdue"
    later = queue.add(3)
    queue.wait_until_settled(later)
    fleet.stop()
    queue.check(expected_dead=[holding])


@pytest.fixture
def child() -> Any:
    """Return a child process that runs a job, as its supervisor sees it."""
    slots = RunningSlots.private(2)
    slots.name_worker(uuid4())
    return SimpleNamespace(slots=slots, silent_seconds=0.0)


def reason(child: Child, *, stopping_for: float | None = None) -> str:
    supervisor = Supervisor([], threads=1, grace_seconds=GRACE_SECONDS, lasting=True)
    if stopping_for is not None:
        supervisor._stopping_since = time.monotonic() - stopping_for
    return supervisor._reason_to_kill(child)


def test_a_process_without_a_sign_of_life_is_killed_after_ten_leases(child: Any) -> None:
    child.slots.begin(1, time.monotonic() + 1e6)
    most = max(SILENT_LEASES * lease_seconds(), LEAST_SILENT_SECONDS)
    child.silent_seconds = most - 1
    assert reason(child) == ""
    child.silent_seconds = most + 1
    assert reason(child) == "silent"


def test_one_that_is_silent_is_killed_when_its_job_is_overdue(child: Any) -> None:
    child.silent_seconds = 5.0
    child.slots.begin(1, time.monotonic() - INTERRUPT_SECONDS + 1)
    assert reason(child) == ""
    child.slots.begin(1, time.monotonic() - INTERRUPT_SECONDS - 1)
    assert reason(child) == "job_overdue"
    child.silent_seconds = 0.0
    assert reason(child) == "", "the process can still end its handler or itself"
    child.slots.begin(1, time.monotonic() - 1000)
    assert reason(child) == "job_overdue"
    child.slots.end()
    assert reason(child) == ""


@pytest.mark.req("W-03")
def test_what_is_left_long_after_the_grace_is_killed(child: Any) -> None:
    assert reason(child, stopping_for=GRACE_SECONDS + 1) == ""
    child.silent_seconds = 5.0
    assert reason(child, stopping_for=GRACE_SECONDS - 1) == ""
    assert reason(child, stopping_for=GRACE_SECONDS + 1) == "grace_over"
    child.silent_seconds = 0.0
    assert reason(child, stopping_for=GRACE_SECONDS + 100) == "grace_over"
