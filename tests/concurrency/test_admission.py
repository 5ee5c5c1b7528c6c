"""Admission beside open transactions: no enqueue waits for one, and no room is given away twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from uuid import UUID

import pytest
from django.db import connection, transaction

from jobs.engine.admission import admit, sweep
from jobs.engine.outcomes import Completed
from jobs.engine.transactions import reading
from jobs.models import JobQueue
from jobs.queue import acquire_lock, enqueue, set_rate_limit
from jobs.registry import JobPayload, JobType, job
from jobs.states import IN_FLIGHT, LIVE, Status
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import finish, locks, row, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-20")]

# A test that fails ends after this time; one that passes takes a fraction of it.
WAIT_SECONDS = 60
ADMITTERS = 4
ROUNDS = 5

on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has one writer: an enqueue waits for its turn"
)


def in_thread(work: Callable[[], object]) -> object:
    """Run `work` in a session of its own; fail if it has to wait."""

    def run() -> object:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(run).result(timeout=WAIT_SECONDS)
        except TimeoutError:
            # The rollback lets the thread end; otherwise leaving the pool would wait for it for
            # ever.
            transaction.set_rollback(True)
            raise


@contextmanager
def open_transaction(hold: Callable[[Firm], object], firm: Firm) -> Iterator[None]:
    """Keep what `hold` takes until the end of the block, then give it back."""
    with transaction.atomic():
        hold(firm)
        yield
        transaction.set_rollback(True)


def count(statuses: Collection[Status]) -> int:
    """Return how many jobs have these statuses, as any other session sees them."""
    jobs = JobQueue.objects.unscoped("watching").filter(status__in=statuses)
    return reading(jobs.count)


def hold_the_firm(firm: Firm) -> None:
    Firm.objects.select_for_update().get(pk=firm.pk)


def hold_the_bucket(firm: Firm) -> None:
    with all_firms("test"), connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM jobs_ratebucket WHERE firm_id = %s FOR UPDATE", [firm.pk])
        assert cursor.fetchone()


def hold_the_key(firm: Firm) -> None:
    assert acquire_lock("key", 60, firm=firm) is not None


def enqueue_the_same_key(firm: Firm) -> None:
    enqueue("noop", firm=firm, lock_key="key")


@on_postgresql
@pytest.mark.parametrize(
    "hold", [hold_the_firm, hold_the_bucket, hold_the_key, enqueue_the_same_key]
)
def test_an_enqueue_never_waits_for_anothers_open_transaction(
    firm: Firm, hold: Callable[[Firm], object]
) -> None:
    Firm.objects.filter(pk=firm.pk).update(running_cap=5)
    set_rate_limit("noop", 100, 1, firm=firm)
    enqueue("noop", firm=firm, lock_key="another")

    with open_transaction(hold, firm):
        job_id = in_thread(lambda: enqueue("noop", firm=firm, lock_key="key").job_id)

    sweep()
    assert row(job_id).ready


@pytest.mark.req("J-23")
def test_many_admitters_at_once_give_each_room_once(firm: Firm) -> None:
    Firm.objects.filter(pk=firm.pk).update(running_cap=3)
    for number in range(4 * ROUNDS):
        enqueue("noop", firm=firm, lock_key=f"key-{number % 7}" if number % 2 else None)
    started = 0
    for _ in range(ROUNDS):
        line = Barrier(ADMITTERS)

        def admit() -> int:
            line.wait(WAIT_SECONDS)  # noqa: B023 - done before the next round
            try:
                return sweep()
            finally:
                connection.close()

        with ThreadPoolExecutor(ADMITTERS) as admitters:
            futures = [admitters.submit(admit) for _ in range(ADMITTERS)]
            for future in futures:
                future.result(WAIT_SECONDS)
        held = take(10)
        started += len(held)
        assert started == 3


@pytest.mark.req("J-20")
def test_many_workers_at_once_keep_to_a_lock_over_all_firms(
    firm: Firm, other_firm: Firm, job_types: dict[str, JobType]
) -> None:
    """Each worker claims, completes and hands over; all firms wait for the same two slots."""

    @job(
        "test.provider",
        category="sync",
        payload=JobPayload,
        lock_key=lambda _: "provider",
        lock_limit=2,
        lock_counted_by="all_firms",
    )
    def handle(payload: JobPayload, ctx: object) -> None: ...

    jobs = {
        enqueue("test.provider", firm=one).job_id for _ in range(10) for one in (firm, other_firm)
    }
    line, most = Barrier(ADMITTERS), []

    def work() -> set[UUID]:
        done: set[UUID] = set()
        line.wait(WAIT_SECONDS)
        try:
            while count(LIVE):
                sweep()
                claims = take(3)
                most.append(count(IN_FLIGHT))
                for held in claims:
                    done.add(held.job_id)
                    admit(finish(held, Completed({})).released_capacity)
            return done
        finally:
            connection.close()

    with ThreadPoolExecutor(ADMITTERS) as workers:
        futures = [workers.submit(work) for _ in range(ADMITTERS)]
        done = [future.result(WAIT_SECONDS) for future in futures]
    assert set().union(*done) == jobs
    assert sum(map(len, done)) == len(jobs)
    assert max(most) <= 2
    assert locks() == []
