"""Handlers that leave a transaction open fail, and no other job's rows are lost with it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from jobs.errors import JobTimeout, TransactionLeftOpen
from jobs.queue import EnqueueSpec
from jobs.states import QUARANTINE_DEATHS, Status
from tests.queue_kit import change, table_rows
from tests.support.effectjobs.job_handlers import LEAVINGS, THREADS, Leaving, Thread
from tests.support.scenario import Scenario
from tests.support.workers import Fleet

pytestmark = pytest.mark.processes

OTHERS = 10


def path(error: type[BaseException]) -> str:
    """Return the path of the error's class, as attempts store it."""
    return f"{error.__module__}.{error.__qualname__}"


# A handler that raises its own error fails with that error; its transaction is rolled back, too.
OWN_ERRORS: dict[Leaving, str] = {"raise": "ValueError", "timeout": path(JobTimeout)}


def cases() -> Iterator[tuple[Leaving, Thread, bool]]:
    """Yield each way to leave a transaction, the thread, and whether in an isolated process."""
    for leaving in LEAVINGS:
        for thread in THREADS:
            # A timeout does not interrupt threads beside the event loop.
            if leaving != "timeout" or thread == "own":
                yield leaving, thread, False
    for leaving in ("begin", "autocommit", "atomic"):
        yield leaving, "own", True


@pytest.mark.req("W-04", "J-11")
def test_a_transaction_left_open_fails_its_job_and_takes_no_other_with_it(
    queue: Scenario, effects: None, fleet: Fleet
) -> None:
    leavers = {case: add(queue, *case) for case in cases()}
    # With one thread, the next job gets the same connection.
    fleet.start("--concurrency", "1")
    queue.wait_until_settled([leaver for leaver, _ in leavers.values()])
    queue.wait_until_settled()
    fleet.stop()

    written = {UUID(job_id) for (job_id,) in table_rows("SELECT job_id FROM test_effect")}
    for case, (leaver, others) in leavers.items():
        job = queue.row(leaver)
        attempt = queue.only_attempt(leaver)
        assert job.status == Status.DLQ, case
        assert attempt.error_class == OWN_ERRORS.get(case[0], path(TransactionLeftOpen)), case
        assert "left a transaction open" in attempt.message + attempt.traceback, case
        assert leaver not in written, case
        assert queue.statuses(others) == {Status.COMPLETED: OTHERS}, case
        assert written >= set(others), f"{case}: {len(written & set(others))} rows of {OTHERS}"
    # The test set these deaths itself, to quarantine the jobs.
    for job_id in queue.accepted:
        change(job_id, deaths=0)
    queue.check(expected_dead=[leaver for leaver, _ in leavers.values()])


def add(
    queue: Scenario, leaving: Leaving, thread: Thread, isolated: bool
) -> tuple[UUID, list[UUID]]:
    """Enqueue a job that leaves a transaction open, and jobs that follow it."""
    job_type = "effect.write" if thread == "own" else "effect.awrite"
    (leaver,) = queue.enqueue(
        [EnqueueSpec(job_type, {"leaving": leaving, "thread": thread}, max_attempts=1)]
    )
    others = queue.enqueue([EnqueueSpec(job_type, {"thread": thread})] * OTHERS)
    if isolated:
        for job_id in (leaver, *others):
            change(job_id, deaths=QUARANTINE_DEATHS)
    return leaver, others
