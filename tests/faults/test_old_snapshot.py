"""A session keeps an old snapshot: dead rows pile up, but the queue goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db.models import Q, Sum

from jobs.queries.stats import sum_counters
from jobs.states import Status
from tenants.scope import all_firms
from tests.support.databases import database_url, postgresql_only
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, postgresql_only]

WORKERS = 2
CONCURRENCY = ("--concurrency", "20")
PORTION = 2_000
SUITE_JOBS = 300
# Seconds of work without a snapshot, and beside it; the last seconds are compared with the first.
USUAL_SECONDS, BESIDE_SECONDS, LAST_SECONDS = 60.0, 600.0, 60.0
SHARE = 0.75


@pytest.mark.req("J-08")
def test_work_goes_on_beside_an_old_snapshot(queue: Scenario, fleet: Fleet, chaos: bool) -> None:
    fleet.start_many(WORKERS if chaos else 1, *CONCURRENCY)
    usual = rate(queue, USUAL_SECONDS) if chaos else 0.0
    with old_snapshot() as count:
        seen = count()
        if chaos:
            rate(queue, BESIDE_SECONDS - LAST_SECONDS)
            assert rate(queue, LAST_SECONDS) >= SHARE * usual
        else:
            queue.add(SUITE_JOBS)
        queue.wait_until_settled(timeout=300)
        assert count() == seen, "the snapshot is still the old one"
    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    fleet.stop()
    queue.check()


def rate(queue: Scenario, seconds: float) -> float:
    """Keep the workers busy for this time; return how many jobs per second they complete."""
    begun, before = time.monotonic(), completed()
    while time.monotonic() < begun + seconds:
        queue.add(PORTION)
        wait_until(lambda: len(queue.accepted) - completed() < PORTION, "room")
    return (completed() - before) / (time.monotonic() - begun)


def completed() -> int:
    # Read from the counters, because counting the jobs takes longer the more there are.
    with all_firms("counting"):
        sums = sum_counters("category", {"jobs": Sum("completed")}, Q())
        return sum(row["jobs"] for row in sums)


@contextmanager
def old_snapshot() -> Iterator[Callable[[], object]]:
    """Hold a snapshot inside the block; yield a function that counts the jobs in it."""
    with psycopg.connect(database_url()) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute("SELECT set_config('mailroom.engine', 'on', true)")
        yield lambda: session.execute("SELECT count(*) FROM jobs_jobqueue").fetchone()
        session.rollback()
