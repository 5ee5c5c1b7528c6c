"""Keyed jobs exclude each other while their workers are killed."""

from __future__ import annotations

import time
from random import Random

import pytest

from jobs.states import Status
from tests.support.invariants import check_exclusion
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = pytest.mark.processes

# Jobs, keys, kills: in the suite, and in `make chaos`.
SUITE = (300, 10, 3)
CHAOS = (20_000, 50, 60)
WORKERS = 3
CONCURRENCY = "18"
JOB_SECONDS = 0.004


@pytest.mark.req("J-20", "J-09", "J-14")
def test_handlers_of_one_key_never_overlap_while_workers_are_killed_at_random(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    jobs, keys, kills = CHAOS if chaos else SUITE
    rng = Random(11)
    start = ("--concurrency", CONCURRENCY)
    workers = [fleet.start(*start, lease_seconds=SHORT_LEASE_SECONDS) for _ in range(WORKERS)]
    for number in range(keys):
        key = f"key-{number}"
        queue.add(jobs // keys, lock_key=key, label=key, seconds=JOB_SECONDS)

    killed_at = []
    for _ in range(kills):
        victim = workers.pop(0).wait_until_started()
        seen = len(queue.journal.starts(session=victim.session))
        more = rng.randint(1, keys)
        wait_until(
            lambda: len(queue.journal.starts(session=victim.session)) >= seen + more,  # noqa: B023 - waited for at once
            "keyed jobs started by the next victim",
        )
        victim.kill()
        killed_at.append(time.monotonic())
        workers.append(fleet.start(*start, lease_seconds=SHORT_LEASE_SECONDS))
    queue.wait_until_settled(timeout=600 if chaos else 60)
    fleet.kill()

    assert queue.statuses() == {Status.COMPLETED: keys * (jobs // keys)}
    check_exclusion(queue.journal, deaths=killed_at)
    queue.check()
