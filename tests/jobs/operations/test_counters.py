"""Operations on jobs that are over are counted, and are no failures of a worker."""

from __future__ import annotations

import pytest

from jobs.errors import Fatal
from jobs.models import JobQueue
from jobs.queries.stats import queue_stats
from jobs.queue import cancel, discard, reprocess, retry
from jobs.registry import job
from jobs.states import Status
from tenants.scope import all_firms
from tests.jobs.engine.conftest import Add, WorkPayload
from tests.queue_kit import counted, dead_letters, row, rows, work_off

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("work_types"),
    pytest.mark.req("O-01", "D-02"),
]


def totals() -> dict[str, int]:
    """Return the numbers of jobs by status, which must be those of the list of jobs."""
    with all_firms("test"):
        statuses = queue_stats().totals.statuses
    listed = [one.status for one in rows(JobQueue)]
    assert statuses == {status: listed.count(status) for status in Status}
    return statuses


@pytest.fixture
def doomed(add: Add) -> None:
    @job("test.doomed", category="sync", payload=WorkPayload)
    def doomed(payload: WorkPayload, ctx: object) -> None:
        raise Fatal("never")

    for _ in range(3):
        add("test.doomed")
        work_off()


def test_discards_are_counted_as_failed_and_leave_the_failure_rate_alone(doomed: None) -> None:
    with all_firms("test"):
        before = queue_stats().totals.failure_rate
    for letter in dead_letters():
        discard(letter.pk, "obsolete")
    assert totals()[Status.FAILED] == 3
    assert (counted("discarded"), counted("failed"), counted("dlq")) == (3, 0, 3)
    assert totals()[Status.FAILED] == 3
    with all_firms("test"):
        assert queue_stats().totals.failure_rate == before


def test_a_restart_takes_the_job_out_of_what_it_was_counted_as(doomed: None, add: Add) -> None:
    first, second, third = dead_letters()
    discard(first.pk, "obsolete")
    retry(first.original_job_id)
    assert totals()[Status.FAILED] == 0
    reprocess(second.pk)
    canceled = add()
    cancel(canceled)
    assert totals()[Status.CANCELED] == 1
    retry(canceled)
    assert totals()[Status.CANCELED] == 0
    assert row(third.original_job_id).status == Status.DLQ
    assert (counted("failed_restarted"), counted("canceled_restarted")) == (1, 1)
