"""Workers connect through PgBouncer in transaction mode, which is paused and killed."""

from __future__ import annotations

import pytest

from jobs.states import Status
from tests.support.databases import database_url, postgresql_only, unpooled_only
from tests.support.pgbouncer import PROGRAM, pgbouncer
from tests.support.proxy import Proxy
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import Fleet

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed"),
    postgresql_only,
]

LEASE_SECONDS = 1.5
JOBS = 60
# How often the pooler is paused and killed: in the suite, and in `make chaos`.
SUITE = 1
CHAOS = 20


@pytest.mark.req("W-04", "J-08", "J-14", "J-20")
def test_a_worker_outlives_pauses_and_crashes_of_the_pooler(
    queue: Scenario, proxy: Proxy, fleet: Fleet, chaos: bool
) -> None:
    with pgbouncer(proxy) as (pooler, url):
        worker = fleet.start(
            lease_seconds=LEASE_SECONDS, DATABASE_URL=url, LISTEN_DATABASE_URL=database_url()
        )
        for _ in range(CHAOS if chaos else SUITE):
            gate = queue.gate()
            gate.path.unlink(missing_ok=True)
            started = len(queue.journal.starts())
            queue.add(JOBS, seconds=0.01)
            queue.add(JOBS // 2, lock_key="key", label="key")
            queue.add(3, gate=gate, priority=0)
            wait_until(lambda: len(queue.journal.starts()) > started, "work")  # noqa: B023 - waited for at once
            pooler.command("PAUSE")
            queue.wait_until_leases_are_over()
            pooler.command("RESUME")
            gate.open()
            queue.wait_until_settled()
            pooler.kill()
            queue.add(JOBS)
            pooler.start()
            queue.wait_until_settled()

        assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
        assert worker.alive
        assert not worker.events("jobs.rescued")
        assert not worker.events("worker.marked_dead")
        fleet.stop()
    queue.check()


@unpooled_only
@pytest.mark.req("W-04", "W-02")
def test_without_the_setting_a_worker_names_it_and_polls(
    queue: Scenario, proxy: Proxy, fleet: Fleet
) -> None:
    with pgbouncer(proxy) as (_, url):
        workers = [
            fleet.start("--concurrency", "4", "--poll-interval", "0.2", DATABASE_URL=url)
            for _ in range(2)
        ]
        queue.add(200)
        queue.add(20, lock_key="key", label="key")
        for worker in workers:
            worker.wait_until_started()
            assert "LISTEN_DATABASE_URL" in worker.wait_for("worker.pooler_found")["mend"]
        # These jobs come while other transactions use the same sessions.
        for _ in range(5):
            queue.add(20, seconds=0.01)
            queue.wait_until_settled()

        assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
        assert all(worker.alive for worker in workers)
        assert not any(worker.events("worker.broken") for worker in workers)
        fleet.stop()
    queue.check()
