"""The network between a worker and its database fails in every way that networks fail."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest
from django.db import OperationalError, connection

from jobs.models import Worker
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.states import Status
from tests.support.databases import default_database, postgresql_only
from tests.support.prefetch import claim_ahead
from tests.support.proxy import Proxy, proxied
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet, WorkerProcess

pytestmark = [pytest.mark.processes, postgresql_only]

LEASE_SECONDS = 6.0
# The worker that is back first marks no other dead for one lease, so that the other can be heard.
STANDSTILL_LEASE_SECONDS = 6.0
# The lease, by how much an answer is late at most, and how many jobs: in the suite, and in
# `make chaos`.
SLOW_SUITE = (2.0, 0.1, 5)
SLOW_CHAOS = (30.0, 0.4, 200)
SLOW_PORTION = 5
# How many answers to commits are lost, and how many jobs each portion has.
LOSSES_SUITE = (8, 20)
LOSSES_CHAOS = (100, 100)


@pytest.mark.req("J-09", "J-14", "W-04")
def test_a_worker_cut_off_in_silence_gives_up_waiting_before_its_lease_is_over(
    queue: Scenario, proxy: Proxy, fleet: Fleet
) -> None:
    ahead = claim_ahead(queue, fleet, lease_seconds=LEASE_SECONDS, DATABASE_URL=proxy.url)
    proxy.vanish()

    away = ahead.worker.wait_for("worker.database_away")
    assert datetime.fromisoformat(away["timestamp"]) < Worker.objects.get().lease_expires_at
    other = fleet.start(lease_seconds=LEASE_SECONDS)
    other.wait_for("jobs.rescued")
    ahead.gate.open()
    queue.wait_until_settled()

    behind = set(map(str, ahead.behind))
    starts = queue.journal.starts(session=ahead.worker.session)
    assert not behind & {one.job_id for one in starts}, "started under a lease that was over"
    other.kill()
    proxy.heal()
    ahead.worker.wait_for("worker.marked_dead")
    later = queue.add(5)
    queue.wait_until_settled(later)
    fleet.stop()
    queue.check()


@pytest.mark.req("J-09", "J-14", "W-04")
def test_a_transaction_left_open_by_a_worker_that_was_cut_off_ends_with_its_lease(
    queue: Scenario, proxy: Proxy, fleet: Fleet
) -> None:
    gate = queue.gate()
    queue.add(20, gate=gate)
    # The heartbeat's transaction keeps the worker's row locked, which a rescue has to lock.
    proxy.vanish_before_commit_of("UPDATE jobs_worker")
    cut_off = fleet.start(lease_seconds=SHORT_LEASE_SECONDS, DATABASE_URL=proxy.url)
    cut_off.wait_for("worker.database_away")

    other = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    other.wait_for("jobs.rescued")
    gate.open()
    queue.wait_until_settled(timeout=60)

    proxy.heal()
    fleet.stop()
    queue.check()


@pytest.mark.req("J-14", "W-04")
def test_nobody_is_taken_to_be_dead_after_the_database_stood_still(
    queue: Scenario, proxy: Proxy, fleet: Fleet
) -> None:
    gate = queue.gate()
    with proxied() as longer_way:
        first, second = (
            fleet.start(lease_seconds=STANDSTILL_LEASE_SECONDS, DATABASE_URL=way.url)
            for way in (proxy, longer_way)
        )
        jobs = queue.add(6, gate=gate)
        wait_until(lambda: len(queue.journal.starts()) == len(jobs), "all jobs started")
        assert {one.session for one in queue.journal.starts()} == {first.session, second.session}

        proxy.hold()
        longer_way.hold()
        queue.wait_until_leases_are_over()
        proxy.heal()
        wait_for_heartbeats(first, 1)
        longer_way.heal()
        gate.open()
        queue.wait_until_settled()

    assert not first.events("jobs.rescued")
    assert not second.events("jobs.rescued")
    assert {queue.row(job_id).attempts for job_id in jobs} == {1}
    fleet.kill()
    queue.check()


@pytest.mark.req("J-14", "W-04")
def test_a_slow_database_makes_nobody_look_dead(
    queue: Scenario, proxy: Proxy, fleet: Fleet, chaos: bool
) -> None:
    lease_seconds, delay, jobs = SLOW_CHAOS if chaos else SLOW_SUITE
    worker = fleet.start(lease_seconds=lease_seconds, DATABASE_URL=proxy.url).wait_until_started()
    proxy.slow_down(0.0, delay)

    for _ in range(jobs // SLOW_PORTION):
        queue.wait_until_settled(queue.add(SLOW_PORTION))

    assert not worker.events("jobs.rescued")
    assert not worker.events("worker.marked_dead")
    assert {queue.row(job_id).deaths for job_id in queue.accepted} == {0}
    proxy.heal()
    fleet.stop()
    queue.check()


@pytest.mark.req("J-08", "J-09", "W-04")
def test_answers_to_commits_that_never_arrive_lose_nothing_and_repeat_nothing(
    queue: Scenario, proxy: Proxy, fleet: Fleet, chaos: bool
) -> None:
    losses, jobs = LOSSES_CHAOS if chaos else LOSSES_SUITE
    worker = fleet.start(DATABASE_URL=proxy.url).wait_until_started()
    proxy.lose_answers("UPDATE jobs_", times=losses, share=1 / 3)

    while proxy.answers_to_lose:
        queue.wait_until_settled(queue.add(jobs))

    assert worker.events("worker.database_away")
    assert not worker.events("job.attempt_stale")
    starts = Counter(one.job_id for one in queue.journal.starts())
    assert starts == Counter(map(str, queue.accepted))
    assert {queue.row(job_id).attempts for job_id in queue.accepted} == {1}
    fleet.stop()
    queue.check()


@pytest.mark.req("J-06", "J-07")
@pytest.mark.parametrize("jobs", [1, 50])
def test_an_enqueue_whose_answer_was_lost_can_be_repeated_under_its_key(
    queue: Scenario, proxy: Proxy, jobs: int
) -> None:
    specs = [EnqueueSpec("noop", idempotency_key=f"key-{number}") for number in range(jobs)]
    with default_database(proxy.url):
        proxy.lose_answers("jobs_jobqueue")
        with pytest.raises(OperationalError):
            enqueue_many(specs, firm=queue.firm)
        connection.close()
        repeated = enqueue_many(specs, firm=queue.firm)

    assert proxy.answers_to_lose == 0
    assert not any(result.created for result in repeated)
    queue.accepted += [result.job_id for result in repeated]
    assert queue.statuses() == {Status.PENDING: jobs}
    queue.check()


def wait_for_heartbeats(worker: WorkerProcess, count: int) -> None:
    for _ in range(count):
        seen = Worker.objects.get(pid=worker.session).heartbeat_at
        wait_until(
            lambda: Worker.objects.get(pid=worker.session).heartbeat_at > seen,  # noqa: B023 - waited for at once
            "a heartbeat",
        )
