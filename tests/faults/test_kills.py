"""Killing workers loses no job, and leaves none in flight."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from jobs.states import IN_FLIGHT, MAX_DEATHS, AttemptEnd, Status
from tests.support.invariants import NOT_STARTED
from tests.support.prefetch import claim_ahead
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = pytest.mark.processes

# How many workers are killed under how many jobs: in the suite, and in `make chaos`.
SUITE = (8, 400)
CHAOS = (200, 5_000)
WORKERS = 3
# Jobs are so slow that every worker gets some of each portion.
JOB_SECONDS = 0.06
CONCURRENCY = 4


@pytest.mark.req("J-09", "J-12", "J-13", "J-14")
def test_killing_workers_again_and_again_loses_nothing(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    kills, jobs_in_all = CHAOS if chaos else SUITE
    rng = Random(7)
    arguments = ("--concurrency", str(CONCURRENCY))
    workers = [fleet.start(*arguments, lease_seconds=SHORT_LEASE_SECONDS) for _ in range(WORKERS)]
    # The gate ensures that the first kill meets running handlers; for the others that is chance.
    gate = queue.gate()

    for number in range(kills):
        victim = workers.pop(0).wait_until_started()
        # Counted before the portion is added, because on a busy machine it may end soon after.
        seen = len(queue.journal.starts(session=victim.session))
        more = rng.randint(1, CONCURRENCY)
        queue.add(jobs_in_all // kills, seconds=JOB_SECONDS, gate=None if number else gate)
        wait_until(
            lambda: len(queue.journal.starts(session=victim.session)) >= seen + more,  # noqa: B023 - waited for at once
            "jobs started by the next victim",
        )
        victim.kill()
        gate.open()
        workers.append(fleet.start(*arguments, lease_seconds=SHORT_LEASE_SECONDS))
    queue.wait_until_settled(timeout=300)
    fleet.kill()

    jobs = [queue.row(job_id) for job_id in queue.accepted]
    # A job that ran in three workers that died becomes poison.
    poison = [job.job_id for job in jobs if job.deaths == MAX_DEATHS]
    assert len(poison) <= kills // 3
    completed = [job for job in jobs if job.status == Status.COMPLETED]
    assert len(completed) == jobs_in_all - len(poison)
    assert all(job.attempts == 1 + job.deaths for job in completed)
    assert sum(job.deaths for job in jobs) > 0
    queue.check(expected_dead=poison)


@pytest.mark.req("J-14")
def test_a_kill_costs_an_attempt_only_to_started_jobs(queue: Scenario, fleet: Fleet) -> None:
    ahead = claim_ahead(queue, fleet, lease_seconds=SHORT_LEASE_SECONDS)
    ahead.worker.kill()
    claimed = [job for job in map(queue.row, ahead.jobs) if job.status in IN_FLIGHT]
    # The handlers' own record, because the queue's record is what is tested.
    noted = {UUID(start.job_id) for start in queue.journal.starts(session=ahead.worker.session)}
    begun = [job.job_id for job in claimed if job.job_id in noted]
    innocent = [job.job_id for job in claimed if job.job_id not in noted]

    ahead.gate.open()
    fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_settled()
    fleet.stop()

    assert begun == [ahead.blocking]
    blocking = queue.row(ahead.blocking)
    assert (blocking.attempts, blocking.deaths) == (2, 1)
    assert innocent
    for job_id in innocent:
        job = queue.row(job_id)
        assert (job.attempts, job.deaths) == (1, 0)
        (returned,) = queue.attempts(job_id)
        assert (returned.end, returned.error_class) == (AttemptEnd.RESCUED, NOT_STARTED)
    queue.check()


@pytest.mark.req("J-12", "J-14")
def test_the_last_attempt_lost_with_its_worker_is_a_dead_letter(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate, max_attempts=1)
    doomed = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(job_id)
    doomed.kill()

    fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    wait_until(lambda: queue.row(job_id).status == Status.DLQ, "a dead letter")
    fleet.stop()

    job = queue.row(job_id)
    assert (job.attempts, job.deaths) == (1, 1)
    assert job.last_error == "Job timed out (stale claim)"
    queue.check(expected_dead=[job_id])
