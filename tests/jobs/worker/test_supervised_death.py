"""A killed worker process: its supervisor knows which jobs ran, and only these count a death."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # its types are a package of their own
import pytest
from django.db import connection

from jobs.engine.clock import database_now
from jobs.models import Attempt, JobQueue, Worker
from jobs.states import IN_FLIGHT, AttemptEnd, Status
from tenants.scope import all_firms
from tests.factories.tenants import FirmFactory
from tests.queue_kit import change
from tests.support.emptying import empty_used_tables
from tests.support.invariants import NOT_RUNNING
from tests.support.prefetch import claim_ahead
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import LONG_LEASE_SECONDS, SHORT_LEASE_SECONDS, Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("J-14", "J-15", "J-13")]

# Much less than the lease, because nobody has to wait for its end.
BACK_SECONDS = LONG_LEASE_SECONDS / 4
# How many kills, among how many short jobs, and after how many seconds at most the claimed jobs are
# back: in the suite, which runs on busy machines, and in `make chaos`.
SUITE = (1, 1_000, BACK_SECONDS)
CHAOS = (20, 20_000, 2.0)
CONCURRENCY = 4
JOB_SECONDS = 0.002
# This share of the jobs that count as running may be just before their first line in the journal,
# or just after their last. The share of a single kill may be larger: all threads may be there.
EDGE_SHARE = 0.25


def charged() -> set[UUID]:
    """Return the jobs whose attempt and death were counted."""
    with all_firms("looking at the history"):
        rescued = Attempt.objects.filter(end=AttemptEnd.RESCUED).exclude(error_class=NOT_RUNNING)
        return set(rescued.values_list("job_id", flat=True))


def in_flight_of(worker_id: UUID) -> int:
    with all_firms("looking at the queue"):
        return JobQueue.objects.filter(worker_id=worker_id, status__in=IN_FLIGHT).count()


def kill_child(worker_pid: int) -> tuple[UUID, float]:
    """Kill the worker process; return its worker's id and the seconds until its jobs were back."""
    worker = Worker.objects.get(pid=worker_pid, dead_at=None)
    os.kill(worker_pid, signal.SIGKILL)
    killed_at = time.monotonic()
    wait_until(lambda: not in_flight_of(worker.pk), "its jobs back in the queue")
    return worker.pk, time.monotonic() - killed_at


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_amid_short_jobs(queue: Scenario, fleet: Fleet, jobs: int, back_seconds: float) -> int:
    """Kill a worker process; return how many of the charged jobs were not seen running."""
    queue.add(jobs, job_type="process.default", seconds=JOB_SECONDS)
    fleet.start("--concurrency", str(CONCURRENCY), supervised=True)
    wait_until(lambda: count_lines(queue.journal.path) > jobs // 2, "a part of them", timeout=300)
    pid = queue.journal.starts()[-1].pid

    _, seconds = kill_child(pid)

    assert seconds < back_seconds
    before = [one for one in queue.journal.entries() if one.pid == pid]
    begun = {UUID(one.job_id): one.thread for one in before if one.what == "start"}
    ended = {UUID(one.job_id) for one in before if one.what == "end"}
    last = {one.thread: UUID(one.job_id) for one in before if one.what == "start"}
    counted = charged()
    # Each thread counts for one job: the one that it ran or was about to run.
    assert len(counted) <= CONCURRENCY
    assert counted & begun.keys() <= set(last.values())
    for job_id in counted:
        assert (queue.row(job_id).attempts, queue.row(job_id).deaths) == (1, 1)
        # Otherwise the job would wait for the backoff of the default policy, which is a minute.
        change(job_id, scheduled_at=database_now())
    queue.wait_until_settled(timeout=300)
    fleet.stop()
    assert queue.statuses() == {Status.COMPLETED: jobs}
    with all_firms("looking at the queue"):
        paid = JobQueue.objects.filter(attempts__gt=1).values_list("job_id", flat=True)
        assert set(paid) == counted
    queue.check()
    return len(counted - (begun.keys() - ended))


def start_over(queue: Scenario) -> None:
    """Forget the jobs of the last kill."""
    empty_used_tables()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM test_transition")
    queue.firm = FirmFactory(slug="acme")
    queue.journal.path.unlink()
    queue.accepted.clear()


def test_a_kill_amid_short_jobs_counts_only_for_those_that_ran(
    queue: Scenario, fleet: Fleet, chaos: bool
) -> None:
    kills, jobs, back_seconds = CHAOS if chaos else SUITE
    edges = kill_amid_short_jobs(queue, fleet, jobs, back_seconds)
    for _ in range(kills - 1):
        start_over(queue)
        edges += kill_amid_short_jobs(queue, fleet, jobs, back_seconds)

    assert not chaos or edges <= EDGE_SHARE * kills * CONCURRENCY


def test_jobs_claimed_ahead_of_a_killed_process_are_back_at_once_and_lose_nothing(
    queue: Scenario, fleet: Fleet
) -> None:
    ahead = claim_ahead(queue, fleet, supervised=True)
    (start,) = queue.journal.starts(job_id=ahead.blocking)

    worker_id, seconds = kill_child(start.pid)

    assert seconds < BACK_SECONDS
    blocking = queue.row(ahead.blocking)
    assert (blocking.attempts, blocking.deaths) == (1, 1)
    assert charged() == {ahead.blocking}
    ahead.gate.open()
    queue.wait_until_settled()
    # The next rescue removes the worker's row.
    wait_until(lambda: not Worker.objects.filter(pk=worker_id).exists(), "the end of its row")
    fleet.stop()
    assert {queue.row(job_id).deaths for job_id in ahead.behind} == {0}
    queue.check()


@pytest.mark.req("J-12")
def test_of_jobs_with_a_single_attempt_only_the_one_that_ran_is_given_up(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    fleet.start("--concurrency", "1", supervised=True)
    queue.wait_until_settled(queue.add(100))
    (blocking,) = queue.add(gate=gate, max_attempts=1)
    queue.wait_until_started(blocking)
    behind = queue.add(200, max_attempts=1)
    wait_until(lambda: queue.statuses(behind).keys() & IN_FLIGHT, "jobs claimed ahead")
    (start,) = queue.journal.starts(job_id=blocking)

    kill_child(start.pid)

    assert queue.row(blocking).status == Status.DLQ
    gate.open()
    queue.wait_until_settled()
    fleet.stop()
    assert queue.statuses(behind) == {Status.COMPLETED: 200}
    queue.check(expected_dead=[blocking])


def test_a_rescue_that_its_sidecar_did_not_finish_is_left_to_the_next(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    parent = fleet.start(supervised=True, lease_seconds=LONG_LEASE_SECONDS)
    queue.wait_until_started(job_id)
    worker = Worker.objects.get()
    children = {child.pid for child in psutil.Process(parent.session).children()}
    (sidecar,) = children - {worker.pid}

    os.kill(sidecar, signal.SIGSTOP)
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(Worker.objects.exclude(pk=worker.pk).exists, "the next worker")
    assert in_flight_of(worker.pk) == 1
    os.kill(sidecar, signal.SIGKILL)

    wait_until(
        lambda: not in_flight_of(worker.pk), "its job back in the queue", timeout=BACK_SECONDS
    )
    gate.open()


def test_what_dies_with_its_supervisor_is_left_to_the_lease(queue: Scenario, fleet: Fleet) -> None:
    ahead = claim_ahead(queue, fleet, supervised=True, lease_seconds=SHORT_LEASE_SECONDS)
    ahead.worker.kill()

    ahead.gate.open()
    fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_settled()
    fleet.stop()

    assert queue.row(ahead.blocking).deaths == 1
    assert {queue.row(job_id).deaths for job_id in ahead.behind} == {0}
    queue.check()
