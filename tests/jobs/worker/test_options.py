"""`--burst`, `--max-jobs` and the filters: which jobs a worker takes and when it ends by itself."""

from __future__ import annotations

import pytest
from django.core.management.base import CommandError

from jobs.management.commands.runworker import Command
from jobs.states import QUARANTINE_DEATHS, Status
from tests.queue_kit import change
from tests.support.scenario import Scenario
from tests.support.workers import SHORT_LEASE_SECONDS, Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("W-01")]

EXIT_SECONDS = 90


def test_a_burst_ends_well_when_nothing_is_runnable_and_leaves_the_future_alone(
    queue: Scenario, fleet: Fleet
) -> None:
    runnable = queue.add(20)
    keyed = queue.add(10, lock_key="one-at-a-time", label="one-at-a-time")
    hopeless = queue.add_failing("error", times=1, max_attempts=1)
    (later,) = queue.add(delay=3600)

    worker = fleet.start("--burst")

    assert worker.wait_for_exit(EXIT_SECONDS) == 0
    assert queue.statuses([*runnable, *keyed]) == {Status.COMPLETED: 30}
    assert queue.row(hopeless).status == Status.DLQ
    assert queue.row(later).attempts == 0
    queue.check(expected_dead=[hopeless])


def test_a_burst_leaves_a_job_that_backs_off(queue: Scenario, fleet: Fleet) -> None:
    job_id = queue.add_failing("later", times=1)

    assert fleet.start("--burst").wait_for_exit(EXIT_SECONDS) == 0

    job = queue.row(job_id)
    assert (job.status, job.attempts) == (Status.PENDING, 1)
    assert job.scheduled_at > job.updated_at


@pytest.mark.req("J-14")
def test_a_burst_rescues_the_jobs_of_dead_workers_first(queue: Scenario, fleet: Fleet) -> None:
    gate = queue.gate()
    (job_id,) = queue.add(gate=gate)
    doomed = fleet.start(lease_seconds=SHORT_LEASE_SECONDS)
    queue.wait_until_started(job_id)
    doomed.kill()
    gate.open()

    queue.wait_until_leases_are_over()
    for _ in ("rescues it", "runs it after its backoff"):
        worker = fleet.start("--burst", lease_seconds=SHORT_LEASE_SECONDS)
        assert worker.wait_for_exit(EXIT_SECONDS) == 0

    job = queue.row(job_id)
    assert (job.status, job.attempts, job.deaths) == (Status.COMPLETED, 2, 1)
    queue.check()


def test_max_jobs_takes_that_many_and_no_more(queue: Scenario, fleet: Fleet) -> None:
    queue.add(30)

    assert fleet.start("--max-jobs", "7").wait_for_exit(EXIT_SECONDS) == 0

    assert queue.statuses() == {Status.COMPLETED: 7, Status.PENDING: 23}
    assert len(queue.journal.starts()) == 7
    queue.check()


@pytest.mark.usefixtures("isolated_memory_mb")
def test_what_is_given_back_is_none_of_max_jobs(queue: Scenario, fleet: Fleet) -> None:
    ids = queue.add(4, seconds=1.0)
    for job_id in ids:
        # One quarantined job runs at a time, and the others are given back because they would wait.
        change(job_id, deaths=QUARANTINE_DEATHS)

    worker = fleet.start("--max-jobs", "3", "--concurrency", "2")

    assert worker.wait_for_exit(90) == 0
    assert queue.statuses(ids) == {Status.COMPLETED: 3, Status.PENDING: 1}
    assert [one for job_id in ids for one in queue.attempts(job_id)], "no job was given back"


def test_the_last_of_max_jobs_may_take_longer_than_the_grace(queue: Scenario, fleet: Fleet) -> None:
    (job_id,) = queue.add(seconds=1.0)

    assert fleet.start("--max-jobs", "1", "--grace", "0.1").wait_for_exit(EXIT_SECONDS) == 0

    assert queue.row(job_id).status == Status.COMPLETED
    queue.check()


@pytest.mark.parametrize(
    "filters",
    [("--category", "documents"), ("--job-type", "process.document"), ("--queue", "documents")],
    ids="/".join,
)
def test_a_filtered_worker_takes_nothing_else(
    queue: Scenario, fleet: Fleet, filters: tuple[str, str]
) -> None:
    others = queue.add(5, priority=0)
    wanted = queue.add(5, job_type="process.document")

    assert fleet.start("--burst", *filters).wait_for_exit(EXIT_SECONDS) == 0

    assert queue.statuses(wanted) == {Status.COMPLETED: 5}
    assert {queue.row(job_id).attempts for job_id in others} == {0}
    queue.check()


def test_a_type_that_nobody_declares_is_not_served() -> None:
    parser = Command().create_parser("manage.py", "runworker")
    with pytest.raises(CommandError, match=r"--job-type: .*noopp; did you mean noop\?"):
        parser.parse_args(["--job-type", "noopp"])


def test_repeated_filters_add_up(queue: Scenario, fleet: Fleet) -> None:
    queue.add(3)
    queue.add(3, job_type="process.document")

    filters = ["--job-type", "process.work", "--job-type", "process.document"]
    assert fleet.start("--burst", *filters).wait_for_exit(EXIT_SECONDS) == 0

    assert queue.statuses() == {Status.COMPLETED: 6}
