"""A job that kills its workers becomes a dead letter; the jobs that run beside it complete."""

from __future__ import annotations

from uuid import UUID

import pytest

from jobs.models import DeadLetterQueue
from jobs.queue import reprocess
from jobs.states import DeadReason, Status
from tenants.scope import all_firms
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("J-15")]

WAYS_TO_DIE = ("exit", "segfault", "memory", "killed")
# How many poisonous jobs there are, and how many innocent ones: in the suite, and in `make chaos`.
SUITE = (1, 20)
CHAOS = (20, 1_000)
INNOCENT_SECONDS = 0.05
# Short, but long enough that no worker looks dead on a busy machine.
LEASE_SECONDS = 2.0
# Of address space; less than the hungry job asks for.
MEMORY_MB = "1024"


def reason(job_id: UUID) -> str:
    """Return why the job was dead-lettered."""
    with all_firms("looking at a dead letter"):
        letters = DeadLetterQueue.objects.filter(original_job_id=job_id)
        return str(letters.latest("job_series").reason)


def test_poison_is_dead_after_three_deaths_and_its_neighbours_complete(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    poisonous, innocents = CHAOS if chaos else SUITE
    innocent: list[UUID] = []
    poison: list[UUID] = []
    for number in range(poisonous):
        innocent += queue.add(innocents // poisonous, seconds=INNOCENT_SECONDS)
        poison.append(queue.add_deadly(WAYS_TO_DIE[number % len(WAYS_TO_DIE)]))

    fleet.start(
        *("--concurrency", "3", "--processes", "2" if chaos else "1"),
        supervised=True,
        lease_seconds=LEASE_SECONDS,
        JOB_ISOLATED_MEMORY_MB=MEMORY_MB,
    )
    queue.wait_until_settled(timeout=900 if chaos else 300)
    fleet.stop()

    assert queue.statuses(innocent) == {Status.COMPLETED: len(innocent)}
    for job in map(queue.row, innocent):
        assert job.attempts == 1 + job.deaths
    for job_id in poison:
        assert queue.row(job_id).deaths == 3
        assert reason(job_id) == DeadReason.POISON
    queue.check(expected_dead=poison)


@pytest.mark.req("D-02")
def test_poison_that_is_reprocessed_starts_alone_again(queue: Scenario, fleet: Fleet) -> None:
    (poison,) = [queue.add_deadly("killed")]
    worker = fleet.start("--concurrency", "3", supervised=True, lease_seconds=LEASE_SECONDS)
    queue.wait_until_settled()
    # After its second death the job ran in an isolated process, so only two workers were replaced.
    assert len(worker.events("worker.started")) == 3
    neighbours = queue.add(8, seconds=0.5)
    queue.wait_until_started(neighbours[0])
    with all_firms("deciding about a dead letter"):
        reprocess(DeadLetterQueue.objects.get(original_job_id=poison))
    queue.wait_until_settled()
    fleet.stop()

    assert (queue.row(poison).deaths, reason(poison)) == (3, DeadReason.POISON)
    assert {queue.row(job_id).attempts for job_id in neighbours} == {1}
    assert len(worker.events("worker.started")) == 3
