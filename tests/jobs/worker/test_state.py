"""How a worker ends: in order, or when one of its threads fails."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from jobs.conf import lease_seconds
from jobs.engine.lease import HEARTBEATS_PER_LEASE
from jobs.engine.lease import heartbeat as send_heartbeat
from jobs.execution import events
from jobs.execution.events import Event
from jobs.models import Worker
from jobs.worker import heartbeat, maintenance
from jobs.worker.state import SharedState
from jobs.worker.worker import WorkerLoop, WorkerOptions
from tests.support.scenario import Scenario
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working


@pytest.mark.req("W-04")
def test_a_worker_that_lost_a_thread_ends_and_claims_nothing_more(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug nobody foresaw")

    told: list[Mapping[str, Any]] = []
    monkeypatch.setitem(events._subscribers, Event.WORKER_BROKEN, [(told.append, None)])
    monkeypatch.setattr(maintenance, "drop_idle_breakers", fail)
    loop = WorkerLoop(WorkerOptions(concurrency=1, poll_seconds=0.05, grace_seconds=1))

    loop.run()

    assert loop.state.broken.is_set()
    [broken] = told
    assert (broken["thread"], broken["error_class"]) == ("maintenance", "RuntimeError")
    assert broken["where"].endswith(f", fail (test_state.py:{fail.__code__.co_firstlineno + 1})")
    assert "nobody foresaw" not in str(broken)
    assert not loop.is_ready()
    # The row stays until the lease ends and another worker rescues its jobs.
    held = [UUID(str(row.id)) for row in Worker.objects.all()]
    assert held == [loop.state.worker_id]


@pytest.mark.req("W-04")
def test_a_worker_whose_first_heartbeat_is_cut_off_begins_with_the_next_at_once(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[UUID] = []

    def cut_at_first(worker_id: UUID, rss_bytes: int) -> bool:
        beats.append(worker_id)
        if len(beats) == 1:
            raise OperationalError("the connection is lost")
        return send_heartbeat(worker_id, rss_bytes)

    monkeypatch.setattr(heartbeat, "heartbeat", cut_at_first)
    begun_at = time.monotonic()

    worker_loop().run()

    # The next heartbeat came long before it would have been due.
    assert time.monotonic() - begun_at < lease_seconds() / HEARTBEATS_PER_LEASE / 2
    assert len(beats) == 2


@pytest.mark.req("W-03")
def test_a_heartbeat_under_way_does_not_bring_back_the_row_of_a_worker_that_ends(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way = threading.Event()

    def slow_heartbeat(worker_id: UUID, rss_bytes: int) -> bool:
        under_way.set()
        # This heartbeat reaches the database just after the end of the worker's row.
        with suppress(AssertionError):
            wait_until(lambda: not Worker.objects.exists(), "the end of the row", timeout=1)
        return send_heartbeat(worker_id, rss_bytes)

    monkeypatch.setattr(heartbeat, "heartbeat", slow_heartbeat)
    monkeypatch.setattr(heartbeat, "HEARTBEATS_PER_LEASE", 1000)
    threads = threading.active_count()
    with working(worker_loop(concurrency=1, burst=False)):
        assert under_way.wait(10)

    wait_until(lambda: threading.active_count() <= threads, "the end of its threads")
    assert not Worker.objects.exists()


def test_what_the_system_refused_is_told_and_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Mapping[str, Any]] = []
    monkeypatch.setitem(events._subscribers, Event.WORKER_BROKEN, [(told.append, None)])
    state = SharedState()

    state.break_by(OSError(errno.EMFILE, "of a handler", "private.txt"), "dispatcher")

    [broken] = told
    assert broken["error"] == os.strerror(errno.EMFILE)
    assert "private" not in str(broken)
    # Another process may fare better.
    assert state.broken.is_set()
    assert not state.slots.ends_for_good
