"""Handlers that take too long, or whose job is canceled."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from django.core.cache import DEFAULT_CACHE_ALIAS, caches

from jobs.errors import JobTimeout
from jobs.execution.context import JobContext
from jobs.queue import cancel, enqueue, set_rate_limit
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import DeadReason, Status
from jobs.worker import heartbeat, running
from tenants.models import Firm
from tests.queue_kit import dead_letters, locks, row
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]

ONCE = RetryPolicy(max_attempts=1)


class EmptyPayload(JobPayload):
    """A payload without fields of its own."""


def declare(handler: Any, name: str = "test.long", **options: Any) -> None:
    job(name, category="sync", payload=EmptyPayload, retry=ONCE, **options)(handler)


@pytest.mark.req("J-14", "W-04")
def test_a_handler_past_its_timeout_is_interrupted(firm: Firm) -> None:
    def endless(payload: EmptyPayload, ctx: JobContext) -> None:
        while True:
            time.sleep(0.01)

    declare(endless, timeout_seconds=0.3)
    job_id = enqueue("test.long", firm=firm).job_id
    loop = worker_loop(concurrency=1)

    loop.run()

    assert not loop.state.stuck.is_set()
    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.3 seconds",
    )
    (letter,) = dead_letters()
    assert letter.reason == DeadReason.EXHAUSTED


@pytest.mark.req("J-14")
def test_a_timeout_does_not_wait_for_the_database(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    in_time = []

    def endless(payload: EmptyPayload, ctx: JobContext) -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    def held_up(claims: list[Any]) -> set[Any]:
        if claims:
            in_time.append(ended.wait(10))
        return set()

    declare(endless, timeout_seconds=0.3)
    enqueue("test.long", firm=firm)
    monkeypatch.setattr(heartbeat, "mark_processing", held_up)

    worker_loop(concurrency=1).run()

    assert in_time
    assert all(in_time)


@pytest.mark.req("J-14", "J-19")
def test_a_transaction_that_outlasts_the_timeout_writes_nothing(firm: Firm) -> None:
    # On SQLite an open transaction keeps all other threads from writing, also the worker's own.
    def slow(payload: EmptyPayload, ctx: JobContext) -> None:
        with ctx.transaction():
            Firm.objects.filter(pk=ctx.firm_id).update(name="too late")
            time.sleep(1)

    declare(slow, timeout_seconds=0.3)
    job_id = enqueue("test.long", firm=firm).job_id

    worker_loop(concurrency=1).run()

    # The heartbeat's thread may still wait until it can write.
    threads = threading.enumerate
    wait_until(lambda: all(one.name != "heartbeat" for one in threads()), "the heartbeat to end")
    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.3 seconds",
    )
    assert Firm.objects.get(pk=firm.pk).name == firm.name


@pytest.mark.req("J-14")
def test_a_handler_that_catches_its_timeout_and_returns_has_failed_all_the_same(firm: Firm) -> None:
    def deaf(payload: EmptyPayload, ctx: JobContext) -> None:
        try:
            while True:
                time.sleep(0.01)
        except JobTimeout:
            return

    declare(deaf, timeout_seconds=0.3)
    job_id = enqueue("test.long", firm=firm).job_id

    worker_loop(concurrency=1).run()

    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.3 seconds",
    )


@pytest.mark.req("W-06")
def test_the_handlers_of_a_thread_share_its_caches(firm: Firm) -> None:
    seen: list[Any] = []

    def look(payload: EmptyPayload, ctx: JobContext) -> None:
        seen.append(caches[DEFAULT_CACHE_ALIAS])

    declare(look)
    for _ in range(2):
        enqueue("test.long", firm=firm)

    worker_loop(concurrency=1).run()

    assert seen[0] is seen[1]


@pytest.mark.req("J-14")
def test_a_handler_that_cannot_be_interrupted_ends_its_worker(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "INTERRUPT_SECONDS", 0.2)
    freed = threading.Event()

    def stuck(payload: EmptyPayload, ctx: JobContext) -> None:
        freed.wait()

    declare(stuck, timeout_seconds=0.2)
    job_id = enqueue("test.long", firm=firm).job_id
    loop = worker_loop(concurrency=1)

    loop.run()
    freed.set()

    assert loop.state.stuck.is_set()
    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.2 seconds",
    )


@pytest.mark.req("J-14", "J-20")
def test_a_handler_that_swallows_everything_keeps_its_lock_and_costs_no_other_its_attempt(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "INTERRUPT_SECONDS", 0.2)
    freed, seen = threading.Event(), threading.Event()

    def stubborn(payload: EmptyPayload, ctx: JobContext) -> None:
        while not freed.is_set():
            try:
                time.sleep(0.001)
            except BaseException:  # noqa: BLE001 - the handler refuses to end
                continue

    def brief(payload: EmptyPayload, ctx: JobContext) -> None:
        wait_until(loop.state.stuck.is_set, "the worker to notice")
        # While the worker drains, the stuck handler still holds its lock.
        assert len(locks()) == 1
        seen.set()

    def long(payload: EmptyPayload, ctx: JobContext) -> None:
        freed.wait()

    declare(stubborn, timeout_seconds=0.2, lock_key=lambda payload: "key")
    declare(brief, "test.brief")
    declare(long, "test.beside")
    stuck = enqueue("test.long", firm=firm).job_id
    finishes, goes_on = (
        enqueue(job_type, firm=firm).job_id for job_type in ("test.brief", "test.beside")
    )
    loop = worker_loop(concurrency=3)
    idle = loop._pool.wait_until_idle

    def wait_until_idle(seconds: float) -> bool:
        # The grace is over for the job that goes on, not for the brief one, which is about to end.
        wait_until(lambda: row(finishes).status == Status.COMPLETED, "the end of the brief one")
        return idle(seconds)

    monkeypatch.setattr(loop._pool, "wait_until_idle", wait_until_idle)
    loop.run()
    freed.set()

    assert seen.is_set()
    assert (row(stuck).status, row(stuck).attempts) == (Status.DLQ, 1)
    assert row(stuck).last_error == "timed out after 0.2 seconds"
    assert row(finishes).status == Status.COMPLETED
    assert (row(goes_on).status, row(goes_on).attempts) == (Status.PENDING, 0)
    assert locks() == []


@pytest.mark.req("J-24")
def test_a_handler_that_outlives_its_worker_has_used_its_token(firm: Firm) -> None:
    begun, freed = threading.Event(), threading.Event()

    def long(payload: EmptyPayload, ctx: JobContext) -> None:
        begun.set()
        freed.wait()

    declare(long)
    set_rate_limit("test.long", 1, 3600)
    job_id = enqueue("test.long", firm=firm).job_id

    with working(worker_loop(concurrency=1, burst=False)):
        assert begun.wait(30)
    freed.set()

    given_back = row(job_id)
    assert (given_back.status, given_back.attempts) == (Status.PENDING, 0)
    assert (given_back.waiting, given_back.admitted) == (True, False)


@pytest.mark.req("J-14")
def test_nobody_waits_for_a_stuck_handler_when_nothing_else_runs(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "INTERRUPT_SECONDS", 0.1)
    freed = threading.Event()

    def stuck(payload: EmptyPayload, ctx: JobContext) -> None:
        freed.wait()

    declare(stuck, timeout_seconds=0.1)
    enqueue("test.long", firm=firm)
    loop = worker_loop(concurrency=1, grace_seconds=60)

    begun = time.monotonic()
    loop.run()
    freed.set()

    assert loop.state.stuck.is_set()
    assert time.monotonic() - begun < 30


@pytest.mark.req("J-16")
def test_a_running_job_stops_at_a_checkpoint_after_it_was_canceled(firm: Firm) -> None:
    seen: list[str] = []

    def patient(payload: EmptyPayload, ctx: JobContext) -> None:
        asked = cancel(ctx.job_id, reason="not needed any more")
        seen.append(asked.status)
        while True:
            ctx.heartbeat()
            time.sleep(0.01)

    declare(patient)
    job_id = enqueue("test.long", firm=firm).job_id

    worker_loop(concurrency=1).run()

    assert seen[0] in {Status.CLAIMED, Status.PROCESSING}
    assert row(job_id).status == Status.CANCELED
    assert not dead_letters()
