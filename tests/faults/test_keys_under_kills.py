"""Jobs with the same lock key do not overlap, also while their workers are killed."""

from __future__ import annotations

import time
from random import Random

import pytest

from jobs.states import Status
from tests.support.invariants import check_exclusion
from tests.support.journal import Entry
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet, WorkerProcess

pytestmark = pytest.mark.processes

# How many jobs, keys and kills: in the suite, and in `make chaos`.
SUITE = (300, 10, 3)
CHAOS = (20_000, 50, 60)
MORE_KILLS = 10
WORKERS = 3
CONCURRENCY = "18"
JOB_SECONDS = 0.03


@pytest.mark.req("J-20", "J-09", "J-14")
def test_handlers_of_one_key_never_overlap_while_workers_are_killed_at_random(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    jobs, keys, kills = CHAOS if chaos else SUITE
    rng = Random(11)
    start = ("--concurrency", CONCURRENCY)
    share = jobs // (kills + 1) // keys
    workers = fleet.start_many(WORKERS, *start, lease_seconds=SHORT_LEASE_SECONDS)

    def add_round() -> None:
        for number in range(keys):
            key = f"key-{number}"
            queue.add(share, lock_key=key, label=key, seconds=JOB_SECONDS)

    deaths: dict[int, float] = {}
    # On a busy machine a victim may have no running handler by the time at which it dies.
    while len(deaths) < kills or not any(one.session in deaths for one in _cut(queue)):
        assert len(deaths) < kills + MORE_KILLS, "no kill has met a handler"
        begun = len(queue.journal.starts())
        add_round()
        more = rng.randint(1, share * keys // 2)
        victim = _worker_of(_start(queue, begun + more), workers)
        victim.kill()
        deaths[victim.session] = time.monotonic()
        workers.remove(victim)
        workers.append(fleet.start(*start, lease_seconds=SHORT_LEASE_SECONDS))
    add_round()
    queue.wait_until_settled(timeout=600 if chaos else 300)
    fleet.kill()

    assert queue.statuses() == {Status.COMPLETED: (len(deaths) + 1) * share * keys}
    assert {one.session for one in _cut(queue)} <= deaths.keys()
    check_exclusion(queue.journal, deaths)
    queue.check()


def _cut(queue: Scenario) -> list[Entry]:
    """Return the starts of handlers that never ended."""
    entries = queue.journal.entries()
    ended = {(one.job_id, one.fence) for one in entries if one.what == "end"}
    return [one for one in queue.journal.starts() if (one.job_id, one.fence) not in ended]


def _start(queue: Scenario, number: int) -> Entry:
    """Wait until `number` handlers have started; return the last of these starts."""
    starts = wait_until(
        lambda: len(found := queue.journal.starts()) >= number and found,
        f"the start of {number} handlers",
        timeout=300,
    )
    return starts[-1]


def _worker_of(entry: Entry, workers: list[WorkerProcess]) -> WorkerProcess:
    return next(worker for worker in workers if worker.session == entry.session)
