"""`async def` handlers: many run on one event loop, each with its own context and its own end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from interfaces.correlation import current_correlation_id
from jobs.engine.current_job import current_job
from jobs.engine.outcomes import Completed
from jobs.execution.context import JobContext
from jobs.models import Worker
from jobs.queue import cancel, enqueue
from jobs.registry import JobPayload, get, job
from jobs.retry import RetryPolicy
from jobs.states import AttemptEnd, Status
from jobs.worker import eventloop, running
from tenants.models import Firm
from tenants.scope import current_scope
from tests.queue_kit import attempts, perform, row, take_one
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("job_types"),
    pytest.mark.req("W-02"),
]

MANY = 200
ONCE = RetryPolicy(max_attempts=1)
FOR_EVER = 3600


class NumberPayload(JobPayload):
    """The number of the job."""

    number: int = 0


def declare(handler: Any, name: str = "test.async", **options: Any) -> None:
    job(name, category="sync", payload=NumberPayload, retry=ONCE, **options)(handler)


def add(firm: Firm, count: int = 1, job_type: str = "test.async") -> list[UUID]:
    return [enqueue(job_type, {"number": number}, firm=firm).job_id for number in range(count)]


def open_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def test_as_many_as_the_concurrency_wait_at_once_without_a_connection_each(firm: Firm) -> None:
    here: set[int] = set()
    everybody = threading.Event()
    let_go = threading.Event()

    async def meet(payload: NumberPayload, ctx: JobContext) -> None:
        here.add(payload.number)
        if len(here) == MANY:
            everybody.set()
        while not let_go.is_set():
            await asyncio.sleep(0.01)

    declare(meet)
    ids = add(firm, MANY)
    with working(worker_loop(concurrency=MANY, burst=False)):
        assert everybody.wait(60)
        if connection.vendor == "postgresql":
            wait_until(lambda: open_connections() < 20, "connections given up")
        let_go.set()
        wait_until(lambda: row(ids[-1]).status == Status.COMPLETED, "the last to end")
    assert {row(job_id).status for job_id in ids} == {Status.COMPLETED}


@pytest.mark.req("J-03", "T-02")
def test_each_has_its_own_context_also_in_the_tasks_it_creates(firm: Firm) -> None:
    seen: dict[int, set[tuple[Any, ...]]] = {}
    both = asyncio.Event()

    def context(ctx: JobContext) -> tuple[Any, ...]:
        mine = current_job()
        return (mine and mine.job_id, current_correlation_id(), current_scope())

    async def later(ctx: JobContext) -> tuple[Any, ...]:
        await asyncio.sleep(0)
        return context(ctx)

    async def compare(payload: NumberPayload, ctx: JobContext) -> None:
        seen[payload.number] = {context(ctx)}
        if len(seen) == 2:
            both.set()
        await both.wait()
        seen[payload.number] |= {context(ctx), await asyncio.create_task(later(ctx))}
        assert seen[payload.number] == {(ctx.job_id, ctx.correlation_id, None)}

    declare(compare)
    ids = add(firm, 2)
    worker_loop().run()
    assert {row(job_id).last_error for job_id in ids} == {""}
    assert {next(iter(seen[number]))[0] for number in (0, 1)} == set(ids)


@pytest.mark.req("J-16")
def test_canceling_the_job_cancels_the_handler(firm: Firm) -> None:
    tidied = []

    async def patient(payload: NumberPayload, ctx: JobContext) -> None:
        try:
            await asyncio.to_thread(_cancel, ctx.job_id)
            await asyncio.sleep(FOR_EVER)
        finally:
            tidied.append(payload.number)

    declare(patient)
    (job_id,) = add(firm)
    worker_loop().run()
    assert (row(job_id).status, tidied) == (Status.CANCELED, [0])


def _cancel(job_id: UUID) -> None:
    cancel(job_id, reason="not needed any more")
    connection.close()


@pytest.mark.req("J-14")
def test_a_handler_past_its_timeout_is_cancelled(firm: Firm) -> None:
    async def endless(payload: NumberPayload, ctx: JobContext) -> None:
        await asyncio.sleep(FOR_EVER)

    declare(endless, timeout_seconds=0.2)
    (job_id,) = add(firm)
    loop = worker_loop()
    loop.run()
    assert not loop.state.stuck.is_set()
    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.2 seconds",
    )


@pytest.mark.req("J-14")
def test_a_handler_that_catches_its_cancellation_at_the_timeout_has_failed_all_the_same(
    firm: Firm,
) -> None:
    async def deaf(payload: NumberPayload, ctx: JobContext) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(FOR_EVER)

    declare(deaf, timeout_seconds=0.2)
    (job_id,) = add(firm)
    worker_loop().run()
    assert (row(job_id).status, row(job_id).last_error) == (
        Status.DLQ,
        "timed out after 0.2 seconds",
    )


@pytest.mark.req("W-04")
def test_a_handler_that_shuts_the_threads_beside_the_loop_down_takes_them_from_nobody(
    firm: Firm,
) -> None:
    async def shut(payload: NumberPayload, ctx: JobContext) -> int:
        await asyncio.get_running_loop().shutdown_default_executor()
        return await asyncio.to_thread(lambda: 5)

    declare(shut)
    ids = add(firm, 2)
    worker_loop(concurrency=1).run()
    assert [row(job_id).result for job_id in ids] == [5, 5]


@pytest.mark.req("W-04")
def test_threads_of_its_own_that_a_handler_gives_the_loop_are_for_no_later_handler(
    firm: Firm,
) -> None:
    async def replace(payload: NumberPayload, ctx: JobContext) -> int:
        if payload.number == 0:
            with ThreadPoolExecutor(1) as pool:
                asyncio.get_running_loop().set_default_executor(pool)
        return await asyncio.to_thread(lambda: 5)

    declare(replace)
    ids = add(firm, 2)
    worker_loop(concurrency=1).run()
    assert [row(job_id).result for job_id in ids] == [5, 5]


@pytest.mark.req("J-14")
def test_a_handler_that_refuses_to_be_cancelled_ends_its_worker_and_costs_no_other_its_attempt(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "INTERRUPT_SECONDS", 0.2)
    freed = asyncio.Event()

    async def stubborn(payload: NumberPayload, ctx: JobContext) -> None:
        while not freed.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    async def innocent(payload: NumberPayload, ctx: JobContext) -> None:
        await asyncio.sleep(FOR_EVER)

    declare(stubborn, timeout_seconds=0.2)
    declare(innocent, "test.innocent")
    (stuck,), (beside,) = add(firm), add(firm, job_type="test.innocent")
    loop = worker_loop()
    loop.run()
    freed.set()
    assert loop.state.stuck.is_set()
    assert row(stuck).last_error == "timed out after 0.2 seconds"
    assert (row(stuck).status, row(stuck).attempts) == (Status.DLQ, 1)
    assert (row(beside).status, row(beside).attempts) == (Status.PENDING, 0)


@pytest.mark.req("J-14")
def test_a_handler_that_blocks_the_loop_ends_its_worker_and_alone_is_to_blame(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = threading.Event()

    async def block(payload: NumberPayload, ctx: JobContext) -> None:
        # Set only here: on a busy machine another handler may block the loop for a moment.
        monkeypatch.setattr(eventloop, "BLOCKED_CHECKS", 5)
        # The time of a task that a handler creates counts as the handler's.
        await asyncio.create_task(_wait_for(freed))

    async def asynchronous(payload: NumberPayload, ctx: JobContext) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(FOR_EVER)

    def ordinary(payload: NumberPayload, ctx: JobContext) -> None:
        wait_until(loop.state.stuck.is_set, "the worker to notice")

    declare(block)
    declare(asynchronous, "test.beside")
    declare(ordinary, "test.ordinary")
    beside, (blocking,) = add(firm, job_type="test.beside"), add(firm)
    (threaded,) = add(firm, job_type="test.ordinary")
    loop = worker_loop(concurrency=3)
    idle = loop._pool.wait_until_idle

    def wait_until_idle(seconds: float) -> bool:
        # The grace is over for the handlers on the loop, not for the ordinary one, which is about
        # to end.
        wait_until(lambda: row(threaded).status == Status.COMPLETED, "the end of the ordinary one")
        return idle(seconds)

    monkeypatch.setattr(loop._pool, "wait_until_idle", wait_until_idle)
    loop.run()
    freed.set()
    assert (row(blocking).status, row(blocking).last_error) == (Status.DLQ, running.BLOCKED)
    assert (row(beside[0]).status, row(beside[0]).attempts) == (Status.PENDING, 0)
    assert (row(threaded).status, row(threaded).attempts) == (Status.COMPLETED, 1)


async def _wait_for(event: threading.Event) -> None:
    event.wait(30)


@pytest.mark.req("J-14")
def test_a_lost_lease_cancels_the_handler(firm: Firm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "JOB_LEASE_SECONDS", 2.0)
    started, ended = threading.Event(), threading.Event()

    async def patient(payload: NumberPayload, ctx: JobContext) -> None:
        started.set()
        try:
            await asyncio.sleep(FOR_EVER)
        finally:
            ended.set()

    declare(patient)
    add(firm)
    with working(worker_loop(burst=False)):
        assert started.wait(10)
        Worker.objects.update(dead_at=Now())
        assert ended.wait(10)


@pytest.mark.req("W-03")
def test_a_handler_longer_than_the_grace_is_cancelled_and_released(firm: Firm) -> None:
    started, ended = threading.Event(), threading.Event()

    async def patient(payload: NumberPayload, ctx: JobContext) -> None:
        started.set()
        try:
            await asyncio.sleep(FOR_EVER)
        finally:
            ended.set()

    declare(patient)
    (job_id,) = add(firm)
    with working(worker_loop(burst=False)):
        assert started.wait(10)
    assert ended.wait(10)
    assert (row(job_id).status, row(job_id).attempts) == (Status.PENDING, 0)
    assert [one.end for one in attempts()] == [AttemptEnd.RELEASED]


@pytest.mark.req("W-04")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_the_loop_outlives_whatever_a_handler_raises(firm: Firm, error: BaseException) -> None:
    async def fail(payload: NumberPayload, ctx: JobContext) -> None:
        if payload.number == 0:
            raise error

    declare(fail)
    first, second = add(firm, 2)
    worker_loop(concurrency=1).run()
    assert (row(first).status, row(second).status) == (Status.DLQ, Status.COMPLETED)
    assert attempts()[0].error_class.endswith(type(error).__name__)


def test_tasks_that_a_handler_leaves_behind_end_with_it(firm: Firm) -> None:
    left: list[asyncio.Task[Any]] = []

    async def careless(payload: NumberPayload, ctx: JobContext) -> None:
        left.append(asyncio.create_task(asyncio.sleep(FOR_EVER)))

    declare(careless)
    add(firm)
    worker_loop().run()
    wait_until(left[0].cancelled, "the end of the task")


def test_tasks_end_with_their_handler_where_another_one_replaced_how_the_loop_makes_them(
    firm: Firm,
) -> None:
    left: list[asyncio.Task[Any]] = []

    async def careless(payload: NumberPayload, ctx: JobContext) -> None:
        asyncio.get_running_loop().set_task_factory(None)
        left.append(asyncio.create_task(asyncio.sleep(FOR_EVER)))

    declare(careless)
    add(firm)
    worker_loop().run()
    wait_until(left[0].cancelled, "the end of the task")


def test_without_a_worker_a_handler_runs_in_a_loop_of_its_own(firm: Firm) -> None:
    async def answer(payload: NumberPayload, ctx: JobContext) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"answer": 42}

    declare(answer)
    add(firm)
    assert perform(take_one()) == Completed({"answer": 42})


def test_a_type_knows_whether_its_handler_is_async() -> None:
    async def handle(payload: NumberPayload, ctx: JobContext) -> None:
        pass

    declare(handle)
    declare(lambda payload, ctx: None, "test.plain")
    assert (get("test.async").is_async, get("test.plain").is_async) == (True, False)
