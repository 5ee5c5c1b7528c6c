"""A worker that was frozen for longer than its lease changes nothing when it goes on."""

from __future__ import annotations

import pytest

from jobs.models import Worker
from jobs.states import Status
from tests.support.history import transitions
from tests.support.prefetch import claim_ahead
from tests.support.scenario import Scenario
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = pytest.mark.processes


@pytest.mark.req("J-09", "J-14")
def test_late_writes_of_a_frozen_worker_change_nothing_and_it_works_on_under_a_new_id(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    frozen = fleet.start(supervised=True, lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(job_id)
    old_id = Worker.objects.get().pk
    frozen.freeze()

    other = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(job_id, starts=2)
    gate.open()
    queue.wait_until_settled()
    other.kill()
    settled = vars(queue.row(job_id))
    history = (transitions(job_id), queue.attempts(job_id))

    frozen.thaw()
    (stale,) = frozen.wait_for_all("job.attempt_stale")
    assert stale["job_id"] == str(job_id)
    frozen.wait_for("worker.marked_dead")
    afterwards = vars(queue.row(job_id))
    assert {**settled, "_state": None} == {**afterwards, "_state": None}
    assert history == (transitions(job_id), queue.attempts(job_id))

    later = queue.add(5)
    queue.wait_until_settled(later)
    new_ids = {queue.row(one).worker_id for one in later}
    assert len(new_ids) == 1
    assert old_id not in new_ids
    assert {one.session for one in queue.journal.starts()} == {frozen.session, other.session}
    fleet.stop()
    assert queue.statuses() == {Status.COMPLETED: 6}
    queue.check()


@pytest.mark.req("J-09", "J-14")
def test_a_thawed_worker_starts_none_of_the_jobs_it_had_claimed_ahead(
    queue: Scenario, fleet: Fleet
) -> None:
    ahead = claim_ahead(queue, fleet, lease_seconds=SHORT_LEASE_SECONDS)
    ahead.worker.freeze()

    ahead.gate.open()
    other = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_settled()
    ahead.worker.thaw()
    ahead.worker.wait_for("job.attempt_stale")
    ahead.worker.wait_for("worker.marked_dead")
    fleet.stop()

    starts = [one for one in queue.journal.starts() if one.job_id in set(map(str, ahead.behind))]
    assert len(starts) == len(ahead.behind)
    assert {one.session for one in starts} == {other.session}
    queue.check()
