"""Workers are killed at every point of a handler: its effects exist exactly once."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations, cycle, islice

import pytest

from jobs.models import FanIn, FanInMember, JobQueue
from jobs.queue import EnqueueSpec
from jobs.states import LIVE, Status
from tenants.scope import all_firms
from tests.queue_kit import rows, table_rows
from tests.support.effectjobs.job_handlers import LEAVES, POINTS, Point, kills_of, steps_of
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet, WorkerProcess

pytestmark = pytest.mark.processes

# How many processes are killed: in the suite, and in `make chaos`.
SUITE = len(POINTS)
CHAOS = 1_000
WORKERS = 2
# With a third death the job would be poison.
KILLS_PER_JOB = 2


def plans(kills: int) -> list[tuple[Point, Point]]:
    """Return the points at which the first two attempts of each job are killed.

    The second is always the later one, because a finished step does not run again.
    """
    half = len(POINTS) // 2
    # The first pairs contain every point once.
    pairs = chain(zip(POINTS[:half], POINTS[half:], strict=True), combinations(POINTS, 2))
    return list(islice(cycle(pairs), kills // KILLS_PER_JOB))


def work_through(queue: Scenario, fleet: Fleet, timeout: float) -> None:
    """Work with processes that run one job at a time; replace each that was killed."""

    def start() -> WorkerProcess:
        return fleet.start("--concurrency", "1", lease_seconds=SHORT_LEASE_SECONDS)

    workers = [start() for _ in range(WORKERS)]

    def settled() -> bool:
        for number, worker in enumerate(workers):
            if not worker.alive:
                workers[number] = start()
        return not LIVE & queue.statuses().keys()

    wait_until(settled, "all jobs settled", timeout=timeout)
    for worker in workers:
        worker.kill()


@pytest.mark.req("J-18", "J-19", "A-02", "J-14")
def test_kills_at_every_point_double_nothing_and_lose_nothing(
    queue: Scenario, effects: None, fleet: Fleet, chaos: bool
) -> None:
    planned = plans(CHAOS if chaos else SUITE)
    payloads = [{"journal": str(queue.journal.path), "kills": list(plan)} for plan in planned]
    made = queue.enqueue([EnqueueSpec("effect.make", payload) for payload in payloads])

    work_through(queue, fleet, timeout=3_000 if chaos else 300)

    kills = kills_of(queue.journal).starts()
    assert Counter(one.label for one in kills) == Counter(chain(*planned))
    written = Counter(job_id for (job_id,) in table_rows("SELECT job_id FROM test_effect"))
    assert written == Counter(str(job_id) for job_id in made)
    by_type = Counter((job.parent_id, job.job_type) for job in rows(JobQueue) if job.parent_id)
    for job_id in made:
        assert by_type[job_id, "effect.leaf"] == LEAVES
        assert by_type[job_id, "effect.sum"] == 1
        steps = [one.what for one in steps_of(queue.journal).entries() if one.job_id == str(job_id)]
        first_end = steps.index("end")
        assert "start" not in steps[first_end:], "a finished step ran again"
    with all_firms("looking at the queue"):
        queue.accepted += JobQueue.objects.filter(parent__in=made).values_list("pk", flat=True)
        assert FanIn.objects.filter(fired_at__isnull=True).count() == 0
        assert FanInMember.objects.count() == 0
    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    queue.check()
