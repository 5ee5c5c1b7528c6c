"""What was settled is told in its order, by a thread that those who write do not wait for."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jobs.engine.outcomes import SettleReport
from jobs.worker import event_publisher as teller_module
from jobs.worker.event_publisher import MOST_BATCHES, Teller
from jobs.worker.state import WorkerState
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("W-07")]


class Slow:
    """Tells when it is let; remembers what it told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.may = threading.Semaphore(0)

    def __call__(self, batch: Any, report: SettleReport) -> None:
        self.may.acquire()
        self.told.append(batch)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Let nobody be told before the test says so."""
    slow = Slow()
    monkeypatch.setattr(teller_module, "emit_settled", slow)
    return slow


@pytest.mark.timeout(60)
def test_whoever_writes_goes_on_and_the_end_waits(slow: Slow) -> None:
    teller = Teller(WorkerState())
    teller.start()
    for number in range(MOST_BATCHES):
        teller.tell([number], SettleReport())  # type: ignore[list-item]  # a batch by its number
    assert not teller.drain(0.01)
    slow.may.release(MOST_BATCHES)
    assert teller.drain(30)
    assert slow.told == [[number] for number in range(MOST_BATCHES)]
    teller.end()


@pytest.mark.timeout(60)
def test_many_batches_that_are_not_told_hold_the_writer_up(slow: Slow) -> None:
    teller = Teller(WorkerState())
    teller.start()

    def write() -> None:
        for number in range(MOST_BATCHES + 1):
            teller.tell([number], SettleReport())  # type: ignore[list-item]  # as above

    writer = threading.Thread(target=write)
    writer.start()
    writer.join(0.2)
    assert writer.is_alive()
    slow.may.release(MOST_BATCHES + 1)
    writer.join(30)
    assert teller.drain(30)
    assert len(slow.told) == MOST_BATCHES + 1
    teller.end()


@pytest.mark.timeout(60)
def test_a_teller_that_fell_holds_nobody_up_and_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fall(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(teller_module, "emit_settled", fall)
    state = WorkerState()
    teller = Teller(state)
    teller.start()
    for number in range(MOST_BATCHES + 2):
        teller.tell([number], SettleReport())  # type: ignore[list-item]  # as above
    wait_until(state.broken.is_set, "the worker to be broken", timeout=30)
    assert state.stopping.is_set()
