"""A handler that swallows every error, also that its lease is lost, changes nothing."""

from __future__ import annotations

import pytest

from jobs.models import JobStep
from jobs.states import Status
from tenants.scope import all_firms
from tests.support.scenario import Scenario
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = pytest.mark.processes


@pytest.mark.req("J-09", "J-18")
def test_a_handler_deaf_to_the_loss_of_its_lease_writes_nothing(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(job_type="process.deaf", gate=gate)
    deaf = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(job_id)
    deaf.freeze()
    other = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(job_id, starts=2)
    gate.open()
    queue.wait_until_settled()
    other.kill()

    deaf.thaw()
    (stale,) = deaf.wait_for_all("job.attempt_stale")
    assert stale["job_id"] == str(job_id)
    job = queue.row(job_id)
    assert (job.status, job.result) == (Status.COMPLETED, {"attempt": 2})
    with all_firms("looking at the steps"):
        assert JobStep.objects.get().result == 2
    fleet.stop()
    queue.check()
