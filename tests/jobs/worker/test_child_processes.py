"""Processes that a handler starts react to signals as they would in any other program."""

from __future__ import annotations

import signal

import psutil  # type: ignore[import-untyped]  # its types are a package of their own
import pytest

from jobs.queue import EnqueueSpec
from jobs.states import QUARANTINE_DEATHS, Status
from tests.queue_kit import change
from tests.support.effectjobs.forks import TYPES
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("J-14", "W-03")]


@pytest.mark.parametrize("isolated", [False, True], ids=["worker", "isolated"])
def test_a_signal_from_their_handler_ends_them(
    queue: Scenario, fleet: Fleet, isolated: bool
) -> None:
    (job_id,) = queue.add(job_type="process.signal")
    if isolated:
        change(job_id, deaths=QUARANTINE_DEATHS)

    assert fleet.start("--burst", supervised=True).wait_for_exit(90) == 0

    assert queue.row(job_id).result == {
        number.name: {"fork": -number, "program": -number}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }


def test_a_pool_that_is_left_while_it_works_ends(queue: Scenario, fleet: Fleet) -> None:
    (job_id,) = queue.add(job_type="process.pool")

    assert fleet.start("--burst", supervised=True).wait_for_exit(90) == 0

    assert (queue.row(job_id).status, queue.row(job_id).attempts) == (Status.COMPLETED, 1)


@pytest.mark.req("W-06", "J-20")
def test_they_end_with_their_worker(queue: Scenario, fleet: Fleet) -> None:
    (job_id,) = queue.add(job_type="process.leave")

    assert fleet.start("--burst", supervised=True).wait_for_exit(90) == 0

    assert (queue.row(job_id).status, queue.row(job_id).attempts) == (Status.COMPLETED, 2)
    started = [int(pid) for pid in queue.journal.starts()[0].label.split()]
    assert len(started) == 3
    assert not [pid for pid in started if psutil.pid_exists(pid)]


@pytest.mark.parametrize("job_type", TYPES)
def test_one_that_is_forked_ends_where_it_comes_back_from_its_handler(
    queue: Scenario, fleet: Fleet, job_type: str
) -> None:
    (job_id,) = queue.enqueue([EnqueueSpec(job_type)])

    worker = fleet.start("--burst", supervised=True)
    assert worker.wait_for_exit(90) == 0

    assert queue.row(job_id).result == {
        "returns": 0,
        "raises": 1,
        "exits": 3,
        "exits without a code": 0,
        "exits with a high code": 3,
    }
    assert "ValueError: raised in a fork" in worker.log()
