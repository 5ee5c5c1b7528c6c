"""Two operators act at once on a dead letter and on its job, each in a request's transaction."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from jobs.engine.transactions import in_transaction
from jobs.errors import WrongState
from jobs.models import BulkMember, BulkRun, DeadLetterQueue, JobQueue
from jobs.operations.bulk_chunk import do_chunk
from jobs.operations.operation import get_for_update
from jobs.queue import discard, reprocess, retry
from jobs.states import BulkOperation, Resolution, Status
from tenants.audit import as_actor
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory
from tests.queue_kit import dead_letters, row
from tests.support.databases import is_waited_for, postgresql_only
from tests.support.waiting import wait_until

pytestmark = [postgresql_only, pytest.mark.django_db(transaction=True), pytest.mark.req("D-02")]


def in_a_request(work: Callable[[], Any]) -> Any:
    """Run `work` in its own transaction and on its own connection."""
    try:
        with all_firms("another operator"):
            return work()
    finally:
        connection.close()


@pytest.mark.req("J-17")
@pytest.mark.parametrize("decide", [reprocess, lambda pk: discard(pk, "a reason")])
def test_who_decides_while_the_job_is_retried_is_told_so(decide: Callable[[Any], Any]) -> None:
    letter = DeadLetterQueueFactory()
    with ThreadPoolExecutor(1) as pool:
        with all_firms("an operator"):
            get_for_update(JobQueue, letter.original_job_id)
            deciding = pool.submit(in_a_request, lambda: decide(letter.pk))
            wait_until(is_waited_for, "the other to wait for the job")
            retry(letter.original_job_id)
        with pytest.raises(WrongState, match="was reprocessed already"):
            deciding.result(timeout=20)
    assert row(letter.original_job_id).status == Status.PENDING
    assert [one.resolution for one in dead_letters()] == [Resolution.REPROCESSED]


def test_a_bulk_discard_waits_for_no_job() -> None:
    letter: DeadLetterQueue = DeadLetterQueueFactory()
    run = BulkRun(operation=BulkOperation.DISCARD, reason="r", firm_id=letter.firm_id)
    members = [BulkMember(target_id=letter.pk)]

    def chunk() -> dict[UUID, str]:
        return in_transaction(lambda: do_chunk(run, members, as_actor(None)))

    with ThreadPoolExecutor(1) as pool:
        with all_firms("an operator"):
            get_for_update(JobQueue, letter.original_job_id)
            assert pool.submit(in_a_request, chunk).result(timeout=20) == {}
        assert pool.submit(in_a_request, chunk).result(timeout=20) == {letter.pk: ""}
    assert row(letter.original_job_id).status == Status.FAILED
