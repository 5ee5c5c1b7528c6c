"""Turns between threads that run short jobs and the worker's own threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection

from jobs.queue import EnqueueSpec, enqueue_many
from jobs.registry import JobPayload, job
from jobs.states import Status
from jobs.worker import turns
from jobs.worker.turns import Turns
from tenants.models import Firm
from tests.queue_kit import row
from tests.support.databases import postgresql_only
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = pytest.mark.req("W-02")


@contextmanager
def on_a_thread(work: Callable[[], Any]) -> Iterator[threading.Thread]:
    """Run `work` on a thread, which ends with the block."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn last as long as it takes."""
    monkeypatch.setattr(turns, "LONGEST_TURN_SECONDS", 300.0)


@pytest.mark.usefixtures("patient")
def test_one_thread_at_a_time_has_its_turn_in_the_order_of_asking() -> None:
    turn, order = Turns(), []

    def work(name: str) -> Callable[[], None]:
        def take_turn() -> None:
            with turn.working():
                order.append(name)

        return take_turn

    with turn.working(), on_a_thread(work("first")):
        wait_until(lambda: len(turn._waiting) == 1, "the first to ask")
        with on_a_thread(work("second")):
            wait_until(lambda: len(turn._waiting) == 2, "the second to ask")
            order.append("before them")
            with turn.interrupted():
                wait_until(lambda: len(order) == 3, "both to have their turns")
            order.append("after them")
    assert order == ["before them", "first", "second", "after them"]


def test_a_turn_that_lasts_too_long_keeps_nobody_waiting() -> None:
    turn, may_end, entered = Turns(), threading.Event(), threading.Event()

    def be_slow() -> None:
        with turn.running_batch():
            entered.set()
            may_end.wait(30)

    with on_a_thread(be_slow) as slow:
        entered.wait(30)
        with turn.working():
            assert not turn.in_batch
            may_end.set()
            slow.join(30)
            # The end of the slow turn did not end the turn that is under way.
            with on_a_thread(lambda: turn.working().__enter__()):
                wait_until(lambda: len(turn._waiting) == 1, "another to ask")


@pytest.mark.usefixtures("patient")
def test_who_has_no_turn_takes_none_after_an_interruption() -> None:
    turn = Turns()
    with turn.interrupted():
        pass
    assert len(turn._waiting) == 0
    with on_a_thread(lambda: turn.working().__enter__()):
        pass


@postgresql_only
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("patient")
def test_who_waits_for_the_database_lets_others_have_their_turns() -> None:
    turn, answers = Turns(), []

    def ask() -> None:
        connection.ensure_connection()
        with turn.working(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(4711)")
            answers.append("asked")

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(4711)")
        with on_a_thread(ask):
            wait_until(_waits_for_a_lock, "the thread to wait for the database")
            with turn.running_batch():
                # The database answers now, but the thread waits for the end of the batch.
                cursor.execute("SELECT pg_advisory_unlock(4711)")
                wait_until(lambda: len(turn._waiting) == 1, "the thread to ask for its turn")
                assert answers == []
    assert answers == ["asked"]


def _waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database"
            " WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted"
        )
        return bool(cursor.fetchone()[0])


@postgresql_only
@pytest.mark.django_db(transaction=True)
def test_errors_and_broken_connections_are_found_while_waiting() -> None:
    turn, found = Turns(), []

    def ask() -> None:
        connection.ensure_connection()
        with turn.working():
            with connection.cursor() as cursor:
                with pytest.raises(DataError):
                    cursor.execute("SELECT 1 / 0")
                cursor.execute("SELECT repeat('x', 1000000), %s", ["y" * 1_000_000])
                found.extend(len(text) for text in cursor.fetchone())
            with pytest.raises(OperationalError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        # The turn is free again for the next thread.
        with turn.working():
            found.append("free")

    with on_a_thread(ask):
        pass
    assert found == [1_000_000, 1_000_000, "free"]


@postgresql_only
@pytest.mark.django_db(transaction=True)
def test_a_wait_that_has_an_end_ends() -> None:
    turn, found = Turns(), []

    def ask() -> None:
        connection.ensure_connection()
        with turn.working():
            found.extend(connection.connection.notifies(timeout=0.01))
            found.append("over")

    with on_a_thread(ask):
        pass
    assert found == ["over"]


class NumberPayload(JobPayload):
    """The number of the job in its batch."""

    number: int


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("job_types")
def test_batches_of_short_jobs_run_in_turns(firm: Firm) -> None:
    loop = worker_loop(burst=False)
    in_turn = []

    @job("turns.short", category="sync", payload=NumberPayload)
    def note(payload: NumberPayload, ctx: Any) -> None:
        in_turn.append(loop.state.turns.in_batch)

    with working(loop):
        for number in (0, 300):
            jobs = [EnqueueSpec("turns.short", {"number": number + one}) for one in range(300)]
            last = enqueue_many(jobs, firm=firm)[-1].job_id
            wait_until(lambda last=last: row(last).status == Status.COMPLETED, "the jobs")
    assert len(in_turn) == 600
    assert any(in_turn)
    # The first job of a type runs alone, because nobody knows how long it takes.
    assert not in_turn[0]
    assert not loop.state.turns.in_batch


def test_a_thread_that_was_called_too_late_goes_on_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            super().wait(30)
            return False

    turn, done = Turns(), []

    def work() -> None:
        with turn.working():
            done.append(True)

    monkeypatch.setattr(turns, "threading", SimpleNamespace(Event=Late, get_ident=get_ident))
    with turn.working(), on_a_thread(work):
        wait_until(lambda: len(turn._waiting) == 1, "the thread to ask")
        with turn.interrupted():
            wait_until(lambda: done, "the thread to go on")
    assert len(turn._waiting) == 0
