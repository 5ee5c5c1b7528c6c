"""Threads take short jobs in batches; a slow job in a batch does not delay the others."""

from __future__ import annotations

import threading
from collections import Counter
from types import SimpleNamespace
from uuid import UUID

import pytest

from jobs.execution.context import JobContext
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.registry import JobPayload, job
from jobs.states import Status
from jobs.worker import pool
from jobs.worker.prefetch import PrefetchPolicy
from tenants.models import Firm
from tests.queue_kit import row, rows, take
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("job_types"),
    pytest.mark.req("W-02"),
]

SHORT_JOBS = 300
SHORT_SECONDS = 0.0005
# This many of the longer jobs run at once if short jobs take no thread from them.
AT_ONCE = 6


class NumberPayload(JobPayload):
    """The number of the job in its batch."""

    number: int


def test_what_waits_behind_a_slow_job_goes_to_another_thread(firm: Firm) -> None:
    may_end = threading.Event()
    slow = SHORT_JOBS // 2

    def mostly_short(payload: NumberPayload, ctx: JobContext) -> None:
        if payload.number == slow:
            may_end.wait(300)

    job("test.short", category="sync", payload=NumberPayload)(mostly_short)
    added = enqueue_many(
        [EnqueueSpec("test.short", {"number": number}) for number in range(SHORT_JOBS)], firm=firm
    )
    others = [one.job_id for one in added if one.job_id != added[slow].job_id]
    with working(worker_loop(concurrency=2, burst=False)):
        wait_until(lambda: len(unfinished()) == 1, "the end of all others")
        assert row(added[slow].job_id).status != Status.COMPLETED
        may_end.set()
        wait_until(
            lambda: row(added[slow].job_id).status == Status.COMPLETED, "the end of the slow one"
        )
    assert all(row(job_id).attempts == 1 for job_id in others)


def test_what_waits_behind_a_slow_job_wakes_the_thread_that_hands_out_work(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    job("test.short", category="sync", payload=NumberPayload)(lambda payload, ctx: None)
    enqueue_many([EnqueueSpec("test.short", {"number": number}) for number in (1, 2)], firm=firm)
    workers = worker_loop()._pool
    batch = pool.Batch(take())
    batch.next()
    batch.job_began_at -= 10
    workers._threads = SimpleNamespace(batches=[batch])
    woken: list[bool] = []
    monkeypatch.setattr(workers._work_available, "notify", lambda: woken.append(workers.buffered))
    workers.rebuffer_stalled()
    assert woken == [True]
    assert len(list(workers._buffer)) == 1


def test_what_waits_behind_a_slow_job_goes_back_where_no_other_thread_is_free(firm: Firm) -> None:
    may_end = threading.Event()

    def mostly_short(payload: NumberPayload, ctx: JobContext) -> None:
        if payload.number == SHORT_JOBS:
            may_end.wait(300)

    job("test.short", category="sync", payload=NumberPayload)(mostly_short)

    def add(*numbers: int) -> list[UUID]:
        specs = [EnqueueSpec("test.short", {"number": number}) for number in numbers]
        return [one.job_id for one in enqueue_many(specs, firm=firm)]

    def wait_for(job_ids: list[UUID], status: Status) -> None:
        wait_until(lambda: all(row(job_id).status == status for job_id in job_ids), status.value)

    # No poll comes in time, so only the worker's own threads wake it.
    with working(worker_loop(concurrency=1, burst=False, poll_seconds=120)):
        wait_for(add(*range(SHORT_JOBS)), Status.COMPLETED)
        slow, *others = add(*range(SHORT_JOBS, SHORT_JOBS + 5))
        wait_for([slow], Status.PROCESSING)
        wait_for(others, Status.PENDING)
        may_end.set()


def test_short_jobs_run_on_few_threads_and_several_at_a_time(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    batch = pool.Batch
    # No job is taken for a slow one because the machine stood still.
    monkeypatch.setattr(pool, "STALLED_SECONDS", 30.0)
    observe = PrefetchPolicy.observe
    monkeypatch.setattr(
        PrefetchPolicy,
        "observe",
        lambda policy, job_type, seconds, *rest: observe(
            policy, job_type, min(seconds, SHORT_SECONDS), *rest
        ),
    )
    monkeypatch.setattr(
        pool, "Batch", lambda claims, *rest: sizes.append(len(claims)) or batch(claims, *rest)
    )
    threads: list[int] = []

    def short(payload: NumberPayload, ctx: JobContext) -> None:
        threads.append(threading.get_ident())

    job("test.short", category="sync", payload=NumberPayload)(short)

    def add() -> None:
        enqueue_many([EnqueueSpec("test.short", {"number": 1})] * SHORT_JOBS, firm=firm)

    # No poll comes in time, so only the worker's own threads wake it.
    with working(worker_loop(concurrency=20, burst=False, poll_seconds=120)):
        # The first jobs run one by one, because the worker does not know yet that the type is
        # short.
        add()
        wait_until(lambda: not unfinished(), "the end of the first")
        sizes.clear()
        threads.clear()
        add()
        wait_until(lambda: not unfinished(), "the end of all")
    assert {one.status for one in rows(JobQueue)} == {Status.COMPLETED}
    assert max(sizes) > 10
    assert sum(sizes) >= len(threads) == SHORT_JOBS
    busiest = Counter(threads).most_common(5)
    assert sum(number for _, number in busiest) > SHORT_JOBS * 0.7


def test_short_jobs_between_longer_ones_take_no_thread_from_these(firm: Firm) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def longer(payload: NumberPayload, ctx: JobContext) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.03)
        with lock:
            running -= 1

    def short(payload: NumberPayload, ctx: JobContext) -> None:
        pass

    job("test.longer", category="sync", payload=NumberPayload)(longer)
    job("test.short", category="sync", payload=NumberPayload)(short)
    mixed = [EnqueueSpec("test.longer", {"number": 1}), EnqueueSpec("test.short", {"number": 1})]
    enqueue_many(mixed * 10, firm=firm)
    with working(worker_loop(concurrency=8, burst=False)):
        wait_until(lambda: not unfinished(), "the end of those that show how long they take")
        most = 0

        def kept_busy() -> bool:
            # On a busy machine it may take many jobs until that many of them run at once.
            if len(unfinished()) < 80:
                enqueue_many(mixed * 80, firm=firm)
            return most >= AT_ONCE

        wait_until(kept_busy, f"{AT_ONCE} of the longer ones at once")
        wait_until(lambda: not unfinished(), "the end of all")


def unfinished() -> list[JobQueue]:
    return [one for one in rows(JobQueue) if one.status != Status.COMPLETED]
