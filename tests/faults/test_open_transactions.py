"""A caller keeps a transaction open in which it canceled a job; everybody else's jobs complete."""

from __future__ import annotations

import pytest
from django.db import transaction

from jobs.queue import EnqueueSpec, cancel, enqueue_many
from jobs.states import Status
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.faults.test_deadlocks import count_deadlocks
from tests.support.databases import postgresql_only
from tests.support.scenario import Scenario
from tests.support.worker_loop import worker_loop, working

pytestmark = [pytest.mark.req("J-08"), postgresql_only]

JOBS = 1600


def test_a_cancel_in_an_open_transaction_stops_no_completion(
    queue: Scenario, other_firm: Firm
) -> None:
    (canceled,) = queue.enqueue([EnqueueSpec("noop", delay=3600)])
    jobs = [EnqueueSpec("noop")] * (JOBS // 2)
    ids = queue.enqueue(jobs)
    ids += [one.job_id for one in enqueue_many(jobs, firm=other_firm)]
    queue.accepted += ids[JOBS // 2 :]
    deadlocks = count_deadlocks()
    with firm_scope(queue.firm), transaction.atomic():
        cancel(canceled)
        with working(worker_loop(burst=False, concurrency=20)):
            queue.wait_until_settled(ids)
    assert queue.statuses() == {Status.COMPLETED: JOBS, Status.CANCELED: 1}
    assert count_deadlocks() == deadlocks
    queue.check()
