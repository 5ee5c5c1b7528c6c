"""The database crashes, cuts connections, or is not there yet: workers wait and go on."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from jobs.states import Status
from tests.postgres import Server
from tests.support.databases import postgresql_only, sqlite_only
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, WorkerProcess

pytestmark = [pytest.mark.processes, pytest.mark.req("W-04", "J-14")]

CUTS = 10
JOBS = 600
JOB_SECONDS = 0.02
WORKERS = 2
LEASE_SECONDS = 2.0
# For tests that wait for no lease: long enough that nobody looks dead on a busy machine.
CUT_LEASE_SECONDS = 8.0
# A quick restart, and an outage after which every lease seems to be over.
OUTAGES_SECONDS = (0.0, 1.5 * LEASE_SECONDS)
# Time for several rounds of maintenance, in most of which no task queries the database.
OUTAGE_SECONDS = 6.0
ARGUMENTS = ("--concurrency", "4")


def wait_for_more_starts(queue: Scenario, count: int) -> None:
    seen = len(queue.journal.starts())
    wait_until(lambda: len(queue.journal.starts()) >= seen + count, f"{count} more starts")


def assert_all_done_by(queue: Scenario, workers: list[WorkerProcess]) -> None:
    """Check that the same processes did everything, and that none was taken to be dead."""
    queue.wait_until_settled()
    assert all(worker.alive for worker in workers)
    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    assert {queue.row(job_id).deaths for job_id in queue.accepted} == {0}
    assert not any(worker.events("jobs.rescued") for worker in workers)


@postgresql_only
def test_workers_outlive_crashes_of_the_server_under_load(
    queue_on_own_server: Scenario, own_server: Server, fleet: Fleet
) -> None:
    queue = queue_on_own_server
    workers = fleet.start_many(WORKERS, *ARGUMENTS, lease_seconds=LEASE_SECONDS)
    queue.add(JOBS, seconds=JOB_SECONDS)

    for seconds in OUTAGES_SECONDS:
        wait_for_more_starts(queue, JOBS // (len(OUTAGES_SECONDS) + 2))
        own_server.crash()
        time.sleep(seconds)
        own_server.start()
        connection.close()

    assert_all_done_by(queue, workers)
    assert all(worker.events("worker.database_back") for worker in workers)
    fleet.stop()
    queue.check()


@postgresql_only
def test_nobody_says_that_a_server_is_back_which_is_not(
    queue_on_own_server: Scenario, own_server: Server, fleet: Fleet
) -> None:
    queue = queue_on_own_server
    worker = fleet.start(lease_seconds=CUT_LEASE_SECONDS).wait_until_started()

    own_server.crash()
    worker.wait_for("worker.database_away")
    time.sleep(OUTAGE_SECONDS)
    assert not worker.events("worker.database_back")
    own_server.start()
    connection.close()

    worker.wait_for("worker.database_back")
    queue.add(1)
    assert_all_done_by(queue, [worker])
    fleet.stop()


@postgresql_only
def test_workers_outlive_cut_connections_under_load(queue: Scenario, fleet: Fleet) -> None:
    workers = fleet.start_many(WORKERS, *ARGUMENTS, lease_seconds=CUT_LEASE_SECONDS)

    for _ in range(CUTS):
        queue.add(JOBS // CUTS, seconds=JOB_SECONDS)
        wait_for_more_starts(queue, JOBS // CUTS // 2)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                # Only a superuser may end the server's own sessions, such as autovacuum's.
                " AND backend_type = 'client backend'"
            )

    assert_all_done_by(queue, workers)
    fleet.stop()
    queue.check()


@postgresql_only
def test_a_worker_waits_for_a_server_that_is_not_there_yet(
    queue_on_own_server: Scenario, own_server: Server, fleet: Fleet
) -> None:
    queue = queue_on_own_server
    queue.add(3)
    own_server.crash()
    connection.close()

    worker = fleet.start()
    worker.wait_for("worker.database_away")
    own_server.start()
    worker.wait_for("worker.started")

    queue.wait_until_settled()
    fleet.stop()
    queue.check()


@sqlite_only
def test_a_worker_waits_for_a_file_that_is_not_there_yet(
    queue: Scenario, fleet: Fleet, tmp_path: Path
) -> None:
    queue.add(3)
    disk = tmp_path / "disk"
    database = Path(connection.settings_dict["NAME"]).resolve()

    worker = fleet.start(DATABASE_URL=f"sqlite:///{disk / database.name}")
    worker.wait_for("worker.database_away")
    disk.symlink_to(database.parent)
    worker.wait_for("worker.started")

    queue.wait_until_settled()
    fleet.stop()
    queue.check()


def test_a_worker_that_waits_for_its_database_can_be_stopped(
    queue: Scenario, fleet: Fleet, tmp_path: Path
) -> None:
    nowhere = (
        "postgres://nobody@127.0.0.1:1/nothing"
        if connection.vendor == "postgresql"
        else f"sqlite:///{tmp_path / 'missing' / 'file'}"
    )
    worker = fleet.start(DATABASE_URL=nowhere)
    away = worker.wait_for("worker.database_away")
    assert "cannot be used" in away["error"]

    worker.tell(signal.SIGTERM)

    assert worker.wait_for_exit(30) == 0
    assert len(worker.events("worker.database_away")) == 1, "an outage is logged once"
    assert settings.SECRET_KEY not in worker.log()
