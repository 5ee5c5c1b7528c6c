"""Whatever a handler raises ends its attempt and never its worker."""

from __future__ import annotations

import pytest

from jobs.queue import EnqueueSpec
from jobs.states import AttemptEnd, Status
from tests.support.odd_errors import ODD_ERRORS
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes


@pytest.mark.req("W-04", "J-13")
def test_the_worker_outlives_errors_exits_and_interrupts_of_its_handlers(
    queue: Scenario, fleet: Fleet
) -> None:
    worker = fleet.start("--concurrency", "2")
    failing = [queue.add_failing(how, times=2) for how in ("error", "exit", "interrupt")]

    queue.wait_until_settled()
    (afterwards,) = queue.add()
    queue.wait_until_settled([afterwards])

    assert worker.alive
    fleet.stop()
    for job_id in failing:
        job = queue.row(job_id)
        assert (job.status, job.attempts, job.deaths) == (Status.COMPLETED, 3, 0)
        assert [one.end for one in queue.attempts(job_id)] == [AttemptEnd.RETRIED] * 2
    assert {start.session for start in queue.journal.starts()} == {worker.session}
    queue.check()


@pytest.mark.req("W-04", "J-13")
def test_the_worker_outlives_errors_that_cannot_be_described(queue: Scenario, fleet: Fleet) -> None:
    worker = fleet.start("--concurrency", "2")
    cases = [
        (job_type, name) for job_type in ("process.odd", "process.aodd") for name in ODD_ERRORS
    ]
    cases += [("process.atask", name) for name in ("exit", "interrupt", "stop")]
    odd = {
        (job_type, name): queue.enqueue(
            [
                EnqueueSpec(
                    job_type, {"journal": str(queue.journal.path), "name": name}, max_attempts=1
                )
            ]
        )[0]
        for job_type, name in cases
    }

    queue.wait_until_settled()
    (afterwards,) = queue.add()
    queue.wait_until_settled([afterwards])

    assert worker.alive
    fleet.stop()
    for case, job_id in odd.items():
        attempt = queue.only_attempt(job_id)
        canceled = case[1] == "mute cancel"
        assert queue.row(job_id).status == (Status.CANCELED if canceled else Status.DLQ), case
        assert attempt.error_class, case
    dead = [job_id for (_, name), job_id in odd.items() if name != "mute cancel"]
    queue.check(expected_dead=dead)
