"""A handler that nothing else can stop ends with its process, and that is replaced."""

from __future__ import annotations

import psutil
import pytest

from jobs.states import Status
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("J-14", "W-04")]


def test_its_process_is_replaced_and_its_neighbour_done_again_with_its_attempt(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    if not chaos:
        pytest.skip("a worker is patient with such a handler: longer than the suite is")
    gate = queue.gate()
    (stubborn,) = queue.add(job_type="process.stubborn", max_attempts=1)
    (neighbour,) = queue.add(gate=gate)

    parent = fleet.start("--grace", "1", supervised=True)
    queue.wait_until_started(stubborn)
    (start,) = queue.journal.starts(job_id=stubborn)
    wait_until(lambda: not psutil.pid_exists(start.pid), "the end of the process")
    gate.open()
    queue.wait_until_settled()

    assert parent.alive
    fleet.stop()
    assert (queue.row(stubborn).status, queue.row(stubborn).deaths) == (Status.DLQ, 0)
    assert queue.row(stubborn).last_error == "timed out after 0.5 seconds"
    assert (queue.row(neighbour).status, queue.row(neighbour).attempts) == (Status.COMPLETED, 1)
    queue.check(expected_dead=[stubborn])
