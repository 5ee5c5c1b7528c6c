"""Another session holds SQLite's write lock, or an old snapshot: workers and callers wait."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import RequestFactory

from config.metrics import metrics
from jobs.queue import enqueue
from jobs.states import Status
from tests.support.databases import sqlite_only
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, sqlite_only]

WORKERS = 4
# How often the file is locked, for how many seconds, and how many jobs there are each time.
SUITE = (1, 1.5, 200)
CHAOS = (5, 10.0, 5_000)


@pytest.mark.req("J-08", "W-04")
def test_four_workers_and_a_caller_wait_for_who_holds_the_lock(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    times, seconds, jobs = CHAOS if chaos else SUITE
    workers = fleet.start_many(WORKERS)

    with old_view():
        for _ in range(times):
            started = len(queue.journal.starts())
            queue.add(jobs)
            wait_until(lambda: len(queue.journal.starts()) > started, "work")  # noqa: B023 - waited for at once
            with ThreadPoolExecutor(1) as caller:
                with write_lock():
                    waiting = caller.submit(enqueue_elsewhere, queue)
                    time.sleep(seconds)
                    assert not waiting.done()
                waiting.result(timeout=20)
            queue.wait_until_settled(timeout=300)

    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    for worker in workers:
        assert not worker.events("worker.database_away")
        assert not worker.events("worker.maintenance_failed")
    fleet.stop()
    queue.check()


def test_a_scrape_of_the_metrics_needs_no_lock(queue: Scenario) -> None:
    queue.add(3)

    # The queries of the metrics take seconds if there are a million jobs.
    with write_lock():
        answer = metrics(RequestFactory().get("/metrics"))

    assert 'status="pending"} 3.0' in answer.content.decode()
    queue.add(1)


@pytest.mark.parametrize(
    "command",
    ["jobs list", "jobs stats", "dlq list", "dlq groups", "workers list", "schedules list"],
)
@pytest.mark.parametrize("scope", [(), ("--firm", "acme")], ids=["every firm", "one firm"])
def test_a_command_that_only_reads_needs_no_lock(
    queue: Scenario, command: str, scope: tuple[str, ...]
) -> None:
    queue.add(3)
    told = StringIO()
    with write_lock():
        call_command(*command.split(), *scope, "--json", stdout=told)
    assert json.loads(told.getvalue())
    queue.add(1)
    assert queue.statuses() == {Status.PENDING: 4}


def enqueue_elsewhere(queue: Scenario) -> None:
    try:
        queue.accepted.append(enqueue("noop", firm=queue.firm).job_id)
    finally:
        connection.close()


@contextmanager
def write_lock() -> Iterator[None]:
    """Hold the file's write lock inside the block."""
    with closing(_session()) as session:
        session.execute("BEGIN IMMEDIATE")
        yield
        session.execute("ROLLBACK")


@contextmanager
def old_view() -> Iterator[None]:
    """Hold a snapshot inside the block, so that SQLite cannot checkpoint later writes."""
    with closing(_session()) as session:
        session.execute("BEGIN")
        session.execute("SELECT count(*) FROM jobs_jobqueue").fetchone()
        yield
        session.execute("ROLLBACK")


def _session() -> sqlite3.Connection:
    path = Path(connection.settings_dict["NAME"]).resolve()
    return sqlite3.connect(path, timeout=20, isolation_level=None)
