"""Waiting for a job from outside: for its row, for no longer than asked, and never in vain."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from jobs.engine import job_wait
from jobs.engine.outcomes import Completed
from jobs.errors import ArgumentsInvalid, NotSettled, WrongPlace
from jobs.execution.context import JobContext, Signals
from jobs.queue import cancel, enqueue
from tenants.models import Firm
from tests.queue_kit import RunningJob, as_current_job, finish, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("A-02")]


def complete_the_only_job() -> None:
    try:
        finish(take_one(), Completed({"sum": 3}))
    finally:
        connection.close()


@pytest.fixture
def hours_between_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make polling too rare to help, so that only a notification can end a wait."""
    monkeypatch.setattr(job_wait, "FIRST_PAUSE_SECONDS", 3600)
    monkeypatch.setattr(job_wait, "LONGEST_PAUSE_SECONDS", 3600)


def test_the_settled_row_comes_back(firm: Firm) -> None:
    result = enqueue("test.child", firm=firm)
    complete_the_only_job()
    job = result.wait(5)
    assert (job.pk, job.status, job.result) == (result.job_id, "completed", {"sum": 3})
    assert async_to_sync(result.wait_async)(5).status == "completed"


@pytest.mark.parametrize("timeout", ["5", None, True, float("nan")])
def test_a_timeout_that_is_no_number_is_refused_by_name(firm: Firm, timeout: Any) -> None:
    result = enqueue("test.child", firm=firm)
    for wait in (result.wait, async_to_sync(result.wait_async)):
        with pytest.raises(ArgumentsInvalid, match="timeout: must be a number of seconds"):
            wait(timeout)


def test_a_time_that_is_over_asks_once(firm: Firm) -> None:
    result = enqueue("test.child", firm=firm)
    complete_the_only_job()
    assert result.wait(-1).status == "completed"
    with pytest.raises(NotSettled):
        enqueue("test.child", firm=firm).wait(-1)


def test_any_settled_status_ends_the_wait(firm: Firm) -> None:
    result = enqueue("test.child", firm=firm)
    cancel(result.job_id)
    assert result.wait(5).status == "canceled"


def test_a_job_settled_in_this_process_wakes_who_waits(
    firm: Firm, hours_between_queries: None
) -> None:
    result = enqueue("test.child", firm=firm)
    worker = threading.Timer(0.1, complete_the_only_job)
    worker.start()
    assert result.wait(20).status == "completed"
    worker.join()


@pytest.mark.req("J-19")
def test_a_job_completed_in_its_own_transaction_wakes_who_waits(
    firm: Firm, hours_between_queries: None
) -> None:
    def complete() -> None:
        try:
            with JobContext(take_one(), Signals()).transaction():
                pass
        finally:
            connection.close()

    result = enqueue("test.child", firm=firm)
    worker = threading.Timer(0.1, complete)
    worker.start()
    assert result.wait(20).status == "completed"
    worker.join()


def test_a_coroutine_is_woken_too(firm: Firm, hours_between_queries: None) -> None:
    result = enqueue("test.child", firm=firm)
    worker = threading.Timer(0.1, complete_the_only_job)
    worker.start()
    assert async_to_sync(result.wait_async)(20).status == "completed"
    worker.join()


def test_without_a_notification_polling_finds_it(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("settle", "end_attempts"):
        monkeypatch.setattr(f"jobs.engine.{module}.notify_settled", lambda job_ids: None)
    result = enqueue("test.child", firm=firm)
    worker = threading.Timer(0.1, complete_the_only_job)
    worker.start()
    assert result.wait(20).status == "completed"
    worker.join()


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_it_waits_no_longer_than_asked(firm: Firm, timeout: float) -> None:
    result = enqueue("test.child", firm=firm)
    begun = time.monotonic()
    told = f"job {result.job_id} was not settled .* manage.py jobs why {result.job_id} says what"
    with pytest.raises(NotSettled, match=told) as raised:
        result.wait(timeout)
    assert isinstance(raised.value, TimeoutError)
    assert timeout <= time.monotonic() - begun < timeout + 5
    with pytest.raises(NotSettled):
        async_to_sync(result.wait_async)(timeout)


def test_in_an_open_transaction_it_could_never_be_seen(firm: Firm) -> None:
    with transaction.atomic():
        result = enqueue("test.child", firm=firm)
        with pytest.raises(WrongPlace, match="transaction"):
            result.wait(5)


def test_a_handler_must_not_wait(firm: Firm) -> None:
    result = enqueue("test.child", firm=firm)
    with as_current_job(RunningJob(result.job_id, firm.pk)):
        with pytest.raises(WrongPlace, match="then="):
            result.wait(5)
        with pytest.raises(WrongPlace, match="then="):
            async_to_sync(result.wait_async)(5)


def test_a_coroutine_must_not_block_its_loop(firm: Firm) -> None:
    result = enqueue("test.child", firm=firm)

    async def wait() -> None:
        result.wait(5)

    with pytest.raises(WrongPlace, match="wait_async"):
        asyncio.run(wait())
