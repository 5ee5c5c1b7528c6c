"""A follower whose key a caller's open transaction is enqueueing: the end of a job waits for nobody."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from jobs.engine.clock import database_now
from jobs.engine.fan_in import sweep_fan_ins
from jobs.engine.prune import expire
from jobs.models import FanIn
from jobs.queue import EnqueueSpec, cancel, enqueue
from jobs.registry import JobPayload, job
from tests.faults.test_deadlocks import do_nothing
from tests.faults.test_open_transactions import open_transaction
from tests.queue_kit import context, later, new_worker, row, rows, take
from tests.support.databases import postgresql_only
from tests.support.scenario import Scenario

pytestmark = [pytest.mark.req("A-02"), postgresql_only]


@pytest.mark.parametrize("how", ["expired", "canceled"])
def test_the_key_of_a_follower_keeps_no_child_from_its_end(
    queue: Scenario, job_types: object, waits_for_no_lock: None, how: str
) -> None:
    job("then", category="sync", payload=JobPayload, idempotency_key=lambda _: "key")(do_nothing)
    queue.enqueue([EnqueueSpec("noop")])
    ctx = context(take(1, worker_id=new_worker())[0])
    child = EnqueueSpec("noop", delay=3600, expires_at=database_now() + timedelta(seconds=3601))
    (made,) = ctx.enqueue_many([child], then=("then", {}))
    holders: list[UUID] = []

    def take_key() -> None:
        holders.append(enqueue("noop", firm=queue.firm, idempotency_key="key").job_id)

    with open_transaction(queue.firm, take_key):
        if how == "expired":
            with later(4000):
                assert expire() == 1
        else:
            cancel(made.job_id)
        assert row(made.job_id).completed_at is not None
        sweep_fan_ins(None)
        assert rows(FanIn)[0].fired_at is None
    sweep_fan_ins(None)
    assert [one.then_job_id for one in rows(FanIn)] == holders
