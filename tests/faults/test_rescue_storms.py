"""Workers that could not reach their database for longer than a lease are not marked dead."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import connection

from jobs.states import Status
from tests.postgres import Server, Standby
from tests.support.databases import default_database, postgresql_only
from tests.support.proxy import Proxy, proxied
from tests.support.scenario import Gate, Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet, WorkerProcess

pytestmark = [pytest.mark.processes, pytest.mark.req("J-14", "W-04"), postgresql_only]

# An attempt to connect takes two seconds at least, and is repeated after a pause.
LEASE_SECONDS = 8.0


def start_with_a_job(
    queue: Scenario, fleet: Fleet, gate: Gate, url: str
) -> tuple[WorkerProcess, UUID]:
    """Start a worker; return when it runs a job that waits at the gate."""
    worker = fleet.start("--concurrency", "1", lease_seconds=LEASE_SECONDS, DATABASE_URL=url)
    (job_id,) = queue.add(gate=gate)
    queue.wait_until_started(job_id)
    return worker, job_id


def assert_nobody_was_rescued(queue: Scenario, workers: list[WorkerProcess], job_id: UUID) -> None:
    queue.wait_until_settled()
    assert not any(worker.events("jobs.rescued") for worker in workers)
    assert not any(worker.events("worker.marked_dead") for worker in workers)
    assert len(queue.journal.starts(job_id=job_id)) == 1, "two handlers ran at once"
    job = queue.row(job_id)
    assert (job.status, job.attempts, job.deaths) == (Status.COMPLETED, 1, 0)


def wait_for_heartbeat(worker: WorkerProcess) -> None:
    worker.wait_for("worker.database_back", timeout=3 * LEASE_SECONDS)


@pytest.mark.parametrize("cut", ["vanish", "refuse"])
def test_nobody_is_rescued_by_a_worker_that_started_during_the_outage(
    queue: Scenario, proxy: Proxy, fleet: Fleet, cut: str
) -> None:
    gate = queue.gate()
    living, job_id = start_with_a_job(queue, fleet, gate, proxy.url)

    getattr(proxy, cut)()
    newcomer = fleet.start(lease_seconds=LEASE_SECONDS, DATABASE_URL=proxy.url)
    newcomer.wait_for("worker.database_away")
    queue.wait_until_leases_are_over()
    proxy.heal()
    newcomer.wait_until_started()
    wait_for_heartbeat(living)
    later = queue.add()
    queue.wait_until_settled(later)
    gate.open()

    assert_nobody_was_rescued(queue, [living, newcomer], job_id)
    fleet.stop()
    queue.check()


def test_nobody_is_rescued_by_a_worker_that_started_when_the_outage_was_over(
    queue: Scenario, proxy: Proxy, fleet: Fleet
) -> None:
    gate = queue.gate()
    living, job_id = start_with_a_job(queue, fleet, gate, proxy.url)

    proxy.vanish()
    queue.wait_until_leases_are_over()
    newcomer = fleet.start(lease_seconds=LEASE_SECONDS).wait_until_started()
    proxy.heal()
    wait_for_heartbeat(living)
    gate.open()

    assert_nobody_was_rescued(queue, [living, newcomer], job_id)
    fleet.stop()
    queue.check()


def test_a_burst_waits_for_a_lease_before_it_takes_jobs_back(
    queue: Scenario, proxy: Proxy, fleet: Fleet
) -> None:
    gate = queue.gate()
    living, job_id = start_with_a_job(queue, fleet, gate, proxy.url)
    proxy.vanish()
    queue.wait_until_leases_are_over()

    burst = fleet.start("--burst", lease_seconds=LEASE_SECONDS).wait_until_started()
    proxy.heal()
    wait_for_heartbeat(living)
    assert burst.wait_for_exit(90) == 0
    gate.open()

    assert_nobody_was_rescued(queue, [living, burst], job_id)
    fleet.stop()
    queue.check()


@pytest.fixture
def standby(own_server: Server) -> Iterator[Standby]:
    """Return a standby that follows this test's own server."""
    standby = Standby(own_server)
    try:
        yield standby
    finally:
        standby.end()


def test_nobody_is_rescued_after_a_standby_took_the_place_of_the_server(
    queue_on_own_server: Scenario, own_server: Server, standby: Standby, fleet: Fleet
) -> None:
    queue = queue_on_own_server
    gate = queue.gate()
    with proxied() as proxy:
        living, job_id = start_with_a_job(queue, fleet, gate, proxy.url)
        wait_until(lambda: has_replayed_all(standby), "the standby to follow")
        own_server.crash()
        proxy.reset()
        connection.close()
        try:
            with default_database(standby.url):
                queue.wait_until_leases_are_over()
                standby.promote()
                newcomer = fleet.start(lease_seconds=LEASE_SECONDS, DATABASE_URL=standby.url)
                newcomer.wait_until_started()
                # The older worker reaches the new server a moment later.
                proxy.lead_to(standby)
                wait_for_heartbeat(living)
                gate.open()
                assert_nobody_was_rescued(queue, [living, newcomer], job_id)
                fleet.stop()
                queue.check()
        finally:
            own_server.start()


def has_replayed_all(standby: Standby) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn()::text")
        (written,) = cursor.fetchone()
    with default_database(standby.url), connection.cursor() as cursor:
        cursor.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [written])
        return bool(cursor.fetchone()[0])
