"""Connections are cut one after the other, or all are taken, or they bring no notifications."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random

import pytest
from django.db import connection

from jobs.models import Worker
from jobs.states import Status
from tests.queue_kit import table_rows
from tests.support.databases import database_url, postgresql_only, unpooled_only
from tests.support.proxy import Proxy
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet, WorkerProcess

pytestmark = [pytest.mark.processes, postgresql_only, unpooled_only]

WORKERS = 2
JOB_SECONDS = 0.02
# Only a superuser may end the server's own sessions, such as autovacuum's.
OTHERS = (
    "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
LISTENERS = f"SELECT pid FROM pg_stat_activity WHERE {OTHERS} AND query LIKE 'LISTEN %%'"
# The options of DATABASE_URL apply to the connection that listens, too.
NAMED = f"{LISTENERS} AND application_name = 'one-of-ours'"
# How many connections are cut, one after the other: in the suite, and in `make chaos`.
CUTS_SUITE = 15
CUTS_CHAOS = 200
POLL_SECONDS = 0.3
# Only a poll finds the job; without polls the job would wait for ever.
SOON_SECONDS = 20.0
THREADS = 30


@pytest.mark.req("W-04", "J-14", "W-02")
def test_workers_outlive_cuts_of_single_connections_and_listen_again(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    url = f"{database_url()}&application_name=one-of-ours"
    workers = fleet.start_many(WORKERS, "--concurrency", "4", DATABASE_URL=url)
    wait_until(lambda: len(table_rows(NAMED)) == WORKERS, "all workers to listen")
    rng = Random(5)
    cuts = CUTS_CHAOS if chaos else CUTS_SUITE

    listener = table_rows(LISTENERS)[0][0]
    cut(listener)
    for _ in range(cuts):
        started = len(queue.journal.starts())
        queue.add(10, seconds=JOB_SECONDS)
        pids = sorted(table_rows(f"SELECT pid FROM pg_stat_activity WHERE {OTHERS}"))
        if pids:
            cut(rng.choice(pids)[0])
        wait_until(lambda: len(queue.journal.starts()) > started, "work")  # noqa: B023 - waited for at once

    queue.wait_until_settled()
    wait_until(lambda: len(table_rows(LISTENERS)) == WORKERS, "all workers to listen again")
    assert listener not in {pid for (pid,) in table_rows(LISTENERS)}
    assert all(worker.alive for worker in workers)
    assert not any(worker.events("jobs.rescued") for worker in workers)
    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    fleet.stop()
    queue.check()


@pytest.mark.req("W-04")
def test_workers_wait_where_all_connections_are_taken(queue: Scenario, fleet: Fleet) -> None:
    worker = fleet.start("--concurrency", "10").wait_until_started()
    with connection_limit(2):
        cut_all()
        queue.add(100, seconds=JOB_SECONDS)
        late = fleet.start("--concurrency", "10")
        for one in (worker, late):
            one.wait_for("worker.database_away")
        assert worker.alive
        assert late.alive

    late.wait_until_started()
    queue.wait_until_settled()
    assert queue.statuses() == {Status.COMPLETED: len(queue.accepted)}
    assert [len(one.events("worker.started")) for one in (worker, late)] == [1, 1]
    fleet.stop()
    queue.check()


@pytest.mark.req("W-04", "J-14")
def test_a_worker_has_a_connection_for_its_heartbeat_before_it_claims(
    queue: Scenario, fleet: Fleet
) -> None:
    queue.add(4, seconds=JOB_SECONDS)
    # The test has one connection, so the worker gets two.
    with connection_limit(3):
        worker = fleet.start("--concurrency", "2", lease_seconds=SHORT_LEASE_SECONDS)
        worker.wait_for("worker.database_away")
        leases = {row.pk: row.lease_expires_at for row in Worker.objects.all()}
        queue.wait_until_leases_are_renewed(leases)

    queue.wait_until_settled()
    fleet.stop()
    assert [queue.row(job_id).attempts for job_id in queue.accepted] == [1] * 4
    queue.check()


@pytest.mark.req("W-04", "J-14")
def test_a_server_that_takes_no_writes_for_a_while_costs_no_worker_and_no_attempt(
    queue: Scenario, fleet: Fleet
) -> None:
    workers = fleet.start_many(WORKERS, "--concurrency", "4")
    gate = queue.gate()
    queue.add(WORKERS * 4, gate=gate)
    wait_until(lambda: len(queue.journal.starts()) == WORKERS * 4, "all threads at work")
    with read_only():
        cut_all()
        late = fleet.start("--concurrency", "4")
        gate.open()
        wait_until(lambda: all(map(says_read_only, (*workers, late))), "the refusals")
        # Reads are answered, but that does not mean that the outage is over.
        assert not any(one.events("worker.database_back") for one in workers)
    cut_all()

    late.wait_until_started()
    queue.add(20)
    queue.wait_until_settled()
    assert not any(worker.events("worker.broken") for worker in workers)
    assert [len(one.events("worker.started")) for one in fleet] == [1] * (WORKERS + 1)
    fleet.stop()
    assert len(queue.journal.starts()) == len(queue.accepted)
    fleet.assert_no_traceback()
    queue.check()


@pytest.mark.req("W-02")
def test_threads_whose_handlers_use_no_database_take_no_connections(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    worker = fleet.start("--concurrency", str(THREADS)).wait_until_started()
    queue.add(THREADS, gate=gate)
    wait_until(lambda: len(queue.journal.starts()) == THREADS, "all threads at work")

    ((connections,),) = table_rows(f"SELECT count(*) FROM pg_stat_activity WHERE {OTHERS}")

    assert connections < THREADS / 2
    gate.open()
    queue.wait_until_settled()
    assert worker.alive
    fleet.stop()
    queue.check()


@pytest.mark.req("W-02")
def test_without_any_hint_work_begins_with_the_next_poll(
    queue: Scenario, proxy: Proxy, fleet: Fleet
) -> None:
    worker = fleet.start("--poll-interval", str(POLL_SECONDS), LISTEN_DATABASE_URL=proxy.url)
    worker.wait_until_started()
    wait_until(lambda: table_rows(LISTENERS), "the worker to listen")
    proxy.vanish()

    for _ in range(3):
        (job_id,) = queue.add()
        added_at = time.monotonic()
        queue.wait_until_started(job_id)
        (start,) = queue.journal.starts(job_id=job_id)
        assert start.at - added_at < POLL_SECONDS + SOON_SECONDS
    queue.wait_until_settled()

    assert not worker.events("worker.database_away")
    fleet.stop()
    queue.check()


def says_read_only(worker: WorkerProcess) -> bool:
    return any("read-only" in away["error"] for away in worker.events("worker.database_away"))


def cut(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])


def cut_all() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OTHERS}")


@contextmanager
def altered(setting: str, back: str) -> Iterator[None]:
    """Give new sessions of the database this setting inside the block."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} {setting}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {name} {back}")


def connection_limit(limit: int) -> AbstractContextManager[None]:
    """Let the database accept no more than `limit` connections inside the block."""
    return altered(f"CONNECTION LIMIT {limit}", "CONNECTION LIMIT -1")


def read_only() -> AbstractContextManager[None]:
    """Let new sessions write nothing inside the block; this session still can."""
    setting = "default_transaction_read_only"
    return altered(f"SET {setting} = on", f"RESET {setting}")
