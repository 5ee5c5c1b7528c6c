"""A caller has locked a job whose handler completes it in the handler's own transaction."""

from __future__ import annotations

import time
from typing import Any

import pytest

from jobs.engine.admission import admit
from jobs.engine.outcomes import Released
from jobs.execution.context import JobContext
from jobs.models import JobQueue
from jobs.queue import cancel, enqueue
from jobs.registry import JobPayload, job
from jobs.states import AttemptEnd, Status
from mail.models import MailAccount
from tenants.models import Firm
from tests.faults.test_open_transactions import open_transaction
from tests.queue_kit import attempts, finish, perform, row, rows, take_one, work_off
from tests.support.databases import postgresql_only

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("J-19", "J-09"),
    postgresql_only,
]

LOCK_KEYS = pytest.mark.parametrize("lock_key", [None, "key"], ids=["plain", "keyed"])


@pytest.fixture(autouse=True)
def types(job_types: dict[str, Any]) -> None:
    """Declare a type that writes a row in the transaction that completes its job."""

    def handle(payload: JobPayload, ctx: JobContext) -> None:
        with ctx.transaction() as tx:
            MailAccount.objects.create(address="a@acme.example")
            tx.result = {"made": 1}

    job("test.effect", category="sync", payload=JobPayload)(handle)


@LOCK_KEYS
def test_the_handler_does_not_wait_for_a_caller_that_asks_it_to_stop(
    firm: Firm, lock_key: str | None
) -> None:
    job_id = enqueue("test.effect", firm=firm, lock_key=lock_key).job_id
    claim = take_one()
    with open_transaction(firm, lambda: cancel(job_id)):
        begun = time.monotonic()
        outcome = perform(claim)
        assert time.monotonic() - begun < 10
        assert isinstance(outcome, Released)
        # The worker tries this outcome again as long as the row is locked.
        assert [one.job_id for one in finish(claim, outcome).locked] == [job_id]
    assert finish(claim, outcome).statuses == {job_id: Status.CANCELED}
    assert rows(MailAccount) == []


@LOCK_KEYS
def test_the_attempt_is_not_counted(firm: Firm, lock_key: str | None) -> None:
    job_id = enqueue("test.effect", firm=firm, lock_key=lock_key).job_id
    claim = take_one()
    with open_transaction(firm, lambda: JobQueue.objects.select_for_update().get(pk=job_id)):
        outcome = perform(claim)
    admit(finish(claim, outcome).released_capacity)
    assert (row(job_id).status, row(job_id).attempts) == (Status.PENDING, 0)
    work_off()
    assert (row(job_id).status, row(job_id).result) == (Status.COMPLETED, {"made": 1})
    assert len(rows(MailAccount)) == 1
    assert [one.end for one in attempts()] == [AttemptEnd.RELEASED]
