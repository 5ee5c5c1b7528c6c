"""A hint makes the worker look for work at once, and once more a moment later."""

from __future__ import annotations

import pytest

from jobs.worker.listener import Listener
from jobs.worker.state import SharedState

pytestmark = pytest.mark.req("W-02")

LONG_SECONDS = 30.0


@pytest.fixture
def listener() -> Listener:
    return Listener(SharedState())


def test_a_hint_ends_the_wait(listener: Listener) -> None:
    listener.wake()

    assert listener.wait(LONG_SECONDS)


def test_a_hint_that_came_before_a_look_leads_to_none_but_the_second_one(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.worker.listener.RECHECK_SECONDS", 0.5)
    listener.wake()
    listener.take_hint()

    # The second look finds jobs that were enqueued without a notification right after the first
    # one.
    assert listener.wait(LONG_SECONDS)
    listener.take_hint()
    assert not listener.wait(0.01)


def test_a_hint_that_comes_during_a_look_is_not_lost(listener: Listener) -> None:
    listener.take_hint()
    listener.wake()

    assert listener.wait(LONG_SECONDS)
    assert listener.wait(LONG_SECONDS), "the hint stays until the worker looks"


def test_without_a_hint_the_wait_ends_in_time(listener: Listener) -> None:
    assert not listener.wait(0.01)
