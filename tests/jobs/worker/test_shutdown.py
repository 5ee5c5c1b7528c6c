"""SIGTERM and SIGINT: running jobs may finish, others are given back, and no attempt is lost."""

from __future__ import annotations

import signal
import time
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # its types are a package of their own
import pytest

from jobs.models import Worker
from jobs.states import QUARANTINE_DEATHS, AttemptEnd, Status
from tests.queue_kit import change
from tests.support.prefetch import claim_ahead
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-03", "J-11")]

# How long a worker may take after the grace to write the last outcomes and to exit: enough for a
# busy machine, and much less than a grace or a poll, for which it need not wait.
MARGIN_SECONDS = 20.0
LONG_SECONDS = "60"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_jobs_finish_and_unstarted_ones_are_given_back(
    queue: Scenario, fleet: Fleet, number: signal.Signals
) -> None:
    ahead = claim_ahead(queue, fleet, supervised=True)

    ahead.worker.tell(number)
    ahead.worker.wait_for("jobs.released")
    ahead.gate.open()

    assert ahead.worker.wait_for_exit(MARGIN_SECONDS) == 0
    assert queue.row(ahead.blocking).status == Status.COMPLETED
    left = [job for job in map(queue.row, ahead.behind) if job.status == Status.PENDING]
    assert left
    assert {job.attempts for job in left} == {0}
    assert not Worker.objects.exists()
    told = ahead.worker.events("job.attempt_finished")
    assert len({line["job_id"] for line in told}) == len(told), "each attempt is logged once"
    released = {line["job_id"] for line in told if line["outcome"] == "released"}
    assert released == {
        str(job_id)
        for job_id in ahead.jobs
        for one in queue.attempts(job_id)
        if one.end == AttemptEnd.RELEASED
    }
    ended = {line["job_id"] for line in told} - released
    assert ended >= {str(job_id) for job_id in ahead.jobs} - {str(job.job_id) for job in left}
    queue.check()


def test_a_job_longer_than_the_grace_is_released_with_its_attempt(
    queue: Scenario, fleet: Fleet
) -> None:
    ahead = claim_ahead(queue, fleet, "--grace", "1", supervised=True)

    ahead.worker.tell(signal.SIGTERM)

    assert ahead.worker.wait_for_exit(1 + MARGIN_SECONDS) == 0
    # The jobs in the long job's batch that never started are released, too.
    assert queue.statuses(ahead.jobs) == {Status.PENDING: len(ahead.jobs)}
    assert {queue.row(job_id).attempts for job_id in ahead.jobs} == {0}
    assert [one.end for one in queue.attempts(ahead.blocking)] == [AttemptEnd.RELEASED]

    ahead.gate.open()
    assert fleet.start("--burst").wait_for_exit(90) == 0
    job = queue.row(ahead.blocking)
    assert (job.status, job.attempts, job.deaths) == (Status.COMPLETED, 1, 0)
    queue.check()


def test_a_second_signal_ends_the_worker_at_once(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    worker = fleet.start(
        "--grace", LONG_SECONDS, supervised=True, lease_seconds=SHORT_LEASE_SECONDS
    )
    queue.wait_until_started(job_id)
    worker.tell(signal.SIGTERM)
    worker.wait_for("worker.stopping")

    worker.tell(signal.SIGTERM)

    assert worker.wait_for_exit(MARGIN_SECONDS) != 0
    # The job is rescued after the lease, and its attempt counts, because nobody knows how far it
    # got.
    gate.open()
    fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_settled()
    fleet.stop()
    assert (queue.row(job_id).attempts, queue.row(job_id).deaths) == (2, 1)
    queue.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("also_to_the_parent", [False, True], ids=["group", "parent-then-group"])
def test_a_signal_to_the_process_group_is_one_signal_however_often_it_comes(
    queue: Scenario, fleet: Fleet, number: signal.Signals, also_to_the_parent: bool
) -> None:
    gate = queue.gate()
    jobs = queue.add(3, gate=gate)
    worker = fleet.start("--concurrency", "2", supervised=True)
    wait_until(lambda: len(queue.journal.starts()) == 2, "two jobs started")

    for _ in range(4):
        if also_to_the_parent:
            # The command `timeout` sends the signal to both.
            worker.tell(number)
        worker.tell_group(number)
        time.sleep(0.2)
    worker.wait_for("worker.stopping")
    assert worker.alive
    gate.open()

    assert worker.wait_for_exit(MARGIN_SECONDS) == 0
    done = {UUID(one.job_id) for one in queue.journal.starts()}
    assert queue.statuses(done) == {Status.COMPLETED: 2}
    assert {(job.attempts, job.deaths) for job in map(queue.row, done)} == {(1, 0)}
    (other,) = set(jobs) - done
    assert (queue.row(other).status, queue.row(other).attempts) == (Status.PENDING, 0)
    assert not Worker.objects.exists()
    queue.check()


def test_signals_until_the_group_is_gone_leave_its_exit_code_what_it_is(
    queue: Scenario, fleet: Fleet
) -> None:
    worker = fleet.start(supervised=True).wait_until_started()

    while worker.alive:
        worker.tell_group(signal.SIGTERM)
        time.sleep(0.005)

    assert worker.wait_for_exit(MARGIN_SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_its_processes_leaves_isolated_ones_their_time(
    queue: Scenario, fleet: Fleet, number: signal.Signals
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    change(job_id, deaths=QUARANTINE_DEATHS)
    worker = fleet.start(supervised=True)
    queue.wait_until_started(job_id)

    # systemd signals every process; isolated processes form groups of their own.
    for one in psutil.Process(worker.session).children(recursive=True):
        one.send_signal(number)
    worker.tell(number)
    worker.wait_for("worker.stopping")
    time.sleep(0.3)
    gate.open()

    assert worker.wait_for_exit(MARGIN_SECONDS) == 0
    job = queue.row(job_id)
    assert (job.status, job.attempts, job.deaths) == (Status.COMPLETED, 1, QUARANTINE_DEATHS)


def test_ctrl_c_stops_in_order_and_a_second_one_ends_all_at_once(
    queue: Scenario, fleet: Fleet
) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    worker = fleet.start("--grace", LONG_SECONDS, supervised=True, terminal=True)
    queue.wait_until_started(job_id)

    worker.press_ctrl_c()
    worker.wait_for("worker.stopping")
    time.sleep(0.3)
    assert worker.alive
    worker.press_ctrl_c()

    assert worker.wait_for_exit(MARGIN_SECONDS) != 0
    assert queue.row(job_id).status != Status.COMPLETED


def test_an_idle_worker_leaves_at_once(queue: Scenario, fleet: Fleet) -> None:
    worker = fleet.start("--poll-interval", LONG_SECONDS, supervised=True).wait_until_started()

    worker.tell(signal.SIGTERM)

    assert worker.wait_for_exit(MARGIN_SECONDS) == 0
    assert not Worker.objects.exists()
