"""The methods for `async def` handlers do what their namesakes do, without blocking the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, connection, connections

from interfaces.correlation import correlation, current_correlation_id
from jobs.engine.claim import Claim
from jobs.engine.current_job import Signals, current_job
from jobs.engine.outcomes import Completed, Released
from jobs.errors import Cancel, LeaseLost, WrongPlace
from jobs.execution.async_bridge import (
    DATABASE_THREADS,
    MAX_THREADS,
    IdleThreads,
    in_database_thread,
)
from jobs.execution.context import JobContext, JobTransaction
from jobs.models import FanIn, JobQueue, JobStep
from jobs.queue import EnqueueSpec, enqueue
from jobs.registry import job
from mail.models import MailAccount
from tenants.models import Firm
from tests.jobs.execution.conftest import NamePayload
from tests.queue_kit import RunningJob, as_current_job, finish, perform, row, rows, take_one
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-18")]

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "async-bridge"]


def test_every_call_has_a_twin(ctx: JobContext, run: Run) -> None:
    async def handle() -> None:
        await ctx.aheartbeat()
        await ctx.aprogress(0.5, "half")
        assert (await ctx.afirm()).pk == ctx.firm_id
        child = await ctx.aenqueue("test.child", {"name": "one"}, priority=1)
        others = await ctx.aenqueue_many([EnqueueSpec("test.child")] * 2)
        again = await ctx.aenqueue_many([], then=("test.then", {}))
        assert (child.created, len(others), again) == (True, 2, [])

    run(handle())
    assert (row(ctx.job_id).progress, row(ctx.job_id).progress_note) == (0.5, "half")
    assert len(rows(JobQueue)) == 5
    assert len(rows(FanIn)) == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("call", "twin"),
    [
        (lambda ctx: ctx.heartbeat(), "aheartbeat"),
        (lambda ctx: ctx.progress(0.5), "aprogress"),
        (lambda ctx: ctx.step("a", int), "astep"),
        (lambda ctx: ctx.enqueue("test.child"), "aenqueue"),
        (lambda ctx: ctx.enqueue_many([]), "aenqueue_many"),
        (lambda ctx: ctx.transaction().__enter__(), "run_in_transaction"),
        (lambda ctx: ctx.firm, "afirm"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_call_that_would_block_the_loop_names_its_twin(
    ctx: JobContext, call: Any, twin: str
) -> None:
    async def handle() -> None:
        call(ctx)

    with pytest.raises(WrongPlace, match=rf"await ctx\.{twin}\("):
        asyncio.run(handle())


def test_a_step_runs_once_be_it_async_or_not(ctx: JobContext, run: Run) -> None:
    calls = []

    async def charge(amount: int) -> dict[str, int]:
        await asyncio.sleep(0)
        calls.append(amount)
        return {"charged": amount}

    def note(amount: int) -> int:
        calls.append(amount)
        return amount

    async def handle() -> list[Any]:
        return [
            await ctx.astep("charge", charge, 5),
            await ctx.astep("charge", charge, 6),
            await ctx.astep("note", note, 7),
            await ctx.astep("note", note, 8),
        ]

    assert run(handle()) == [{"charged": 5}, {"charged": 5}, 7, 7]
    assert calls == [5, 7]
    assert all(step.started_at <= step.finished_at for step in rows(JobStep))
    assert len(rows(JobStep)) == 2


def test_a_function_of_the_wrong_kind_is_refused(ctx: JobContext, run: Run) -> None:
    async def work(*_: Any) -> int:
        return 1

    with pytest.raises(TypeError, match="plain function"):
        run(ctx.run_in_transaction(work))
    with pytest.raises(TypeError, match="astep"):
        ctx.step("a", work)  # type: ignore[unused-coroutine]  # the missing `await` is tested
    assert run(ctx.astep("a", lambda: work(0))) == 1
    assert row(ctx.job_id).status == "claimed"


@pytest.mark.req("J-09", "J-16")
@pytest.mark.parametrize(
    ("stop", "error"),
    [
        (lambda signals: signals.lease_lost.set(), LeaseLost),
        (lambda signals: setattr(signals, "cancel_requested", True), Cancel),
    ],
    ids=["lease lost", "canceled"],
)
def test_every_twin_is_a_checkpoint(
    ctx: JobContext, run: Run, stop: Callable[[Signals], None], error: type[Exception]
) -> None:
    stop(ctx._signals)

    async def handle() -> tuple[Any, ...]:
        return await asyncio.gather(
            ctx.aheartbeat(),
            ctx.aprogress(0.5),
            ctx.astep("a", int),
            ctx.aenqueue("test.child"),
            ctx.aenqueue_many([], then=("test.then", {})),
            ctx.run_in_transaction(lambda tx: None),
            return_exceptions=True,
        )

    *raised, by_transaction = [type(one) for one in run(handle())]
    assert set(raised) == {error}
    assert by_transaction is LeaseLost
    assert len(rows(JobQueue)) == 1
    assert row(ctx.job_id).status == "claimed"


@pytest.mark.req("J-19")
def test_a_transaction_commits_with_the_completion(ctx: JobContext, run: Run) -> None:
    def work(tx: JobTransaction, address: str) -> str:
        MailAccount.objects.create(address=address)
        tx.result = {"made": 1}
        return "returned"

    assert run(ctx.run_in_transaction(work, "a@acme.example")) == "returned"
    assert (row(ctx.job_id).status, row(ctx.job_id).result) == ("completed", {"made": 1})
    assert len(rows(MailAccount)) == 1


@pytest.mark.req("J-19", "J-14")
def test_a_transaction_whose_handler_was_stopped_meanwhile_is_undone(
    ctx: JobContext, run: Run
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    errors: list[Any] = []

    def work(tx: JobTransaction) -> None:
        MailAccount.objects.create(address="a@acme.example")
        inside.set()
        assert go_on.wait(10)

    async def handle() -> None:
        task = asyncio.create_task(ctx.run_in_transaction(work))
        while not inside.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        errors.extend(await asyncio.gather(task, return_exceptions=True))
        go_on.set()

    run(handle())
    DATABASE_THREADS.shutdown()
    assert [type(error) for error in errors] == [asyncio.CancelledError]
    assert rows(MailAccount) == []
    assert row(ctx.job_id).status == "claimed"


@pytest.mark.req("J-03")
def test_the_threads_work_in_the_context_of_the_handler(firm: Firm, claim: Claim, run: Run) -> None:
    async def look(name: str) -> tuple[Any, ...]:
        with correlation(name), as_current_job(RunningJob(claim.job_id, firm.pk)):
            return await in_database_thread(
                lambda: (current_correlation_id(), current_job(), threading.current_thread().name)
            )

    async def handle() -> list[tuple[Any, ...]]:
        return await asyncio.gather(*(look(f"c-{number}") for number in range(20)))

    seen = run(handle())
    assert [one[0] for one in seen] == [f"c-{number}" for number in range(20)]
    assert {one[1] for one in seen} == {RunningJob(claim.job_id, firm.pk)}
    assert {one[2] for one in seen} == {"async-bridge"}


@pytest.mark.req("J-05")
def test_an_async_handler_goes_from_claim_to_completion(firm: Firm, job_types: Any) -> None:
    @job("test.async", category="sync", payload=NamePayload)
    async def handle(payload: NamePayload, ctx: JobContext) -> dict[str, str]:
        child = await ctx.aenqueue("test.child")
        return {"child": await ctx.astep("say", lambda: str(child.job_id))}

    enqueue("test.async", firm=firm)
    held = take_one()
    finish(held, perform(held))
    DATABASE_THREADS.shutdown()
    stored = row(held.job_id)
    assert stored.status == "completed"
    child = next(one for one in rows(JobQueue) if one.job_type == "test.child")
    assert stored.result == {"child": str(child.pk)}
    assert (child.parent_id, child.correlation_id) == (stored.pk, stored.correlation_id)


@pytest.mark.req("W-06")
def test_many_handlers_share_a_few_threads_and_connections(ctx: JobContext, run: Run) -> None:
    seen = set()

    def look() -> None:
        connection.ensure_connection()
        seen.add(threading.get_ident())

    async def handle() -> None:
        await asyncio.gather(*(in_database_thread(look) for _ in range(50)))
        assert len(threads()) <= MAX_THREADS

    run(handle())
    assert 1 <= len(seen) <= MAX_THREADS
    DATABASE_THREADS.shutdown()
    assert threads() == []


@pytest.mark.req("W-06")
def test_a_thread_without_work_closes_its_connections_and_ends() -> None:
    def open_one() -> Any:
        connection.ensure_connection()
        return connections[DEFAULT_DB_ALIAS]

    pool = IdleThreads(2, 0.01)
    opened = pool.submit(open_one).result(10)
    wait_until(lambda: not threads(), "the thread to end")
    assert opened.connection is None
    assert pool.submit(lambda: "alive").result(10) == "alive"
    pool.shutdown()


def test_an_error_on_a_thread_reaches_the_handler(ctx: JobContext, run: Run) -> None:
    with pytest.raises(ZeroDivisionError):
        run(ctx.astep("a", lambda: 1 / 0))
    finish(ctx._claim, Released("taken away"))
    with pytest.raises(LeaseLost):
        run(ctx.astep("a", lambda: 1))
    finish(take_one(), Completed({}))


def test_no_call_is_lost_when_threads_end_as_work_comes() -> None:
    pool = IdleThreads(2, 0.0)
    for _ in range(300):
        futures = [pool.submit(int, number) for number in range(3)]
        assert [future.result(10) for future in futures] == [0, 1, 2]
    pool.shutdown()
