"""Subscribers hear of events and cannot disturb whoever emits them."""

from __future__ import annotations

from collections import defaultdict

import pytest
from structlog.testing import capture_logs

from jobs import events
from jobs.events import Event, emit, subscribe


@pytest.fixture(autouse=True)
def nobody_else_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_subscribers", defaultdict(list))


@pytest.mark.req("W-04")
def test_a_subscriber_that_fails_stops_nobody():
    heard = []

    def fail(fields: object) -> None:
        raise RuntimeError("told to fail")

    subscribe(Event.WORKER_STARTED, fail)
    subscribe(Event.WORKER_STARTED, heard.append)
    with capture_logs() as logged:
        emit(Event.WORKER_STARTED, worker_id="w")
        emit(Event.WORKER_STOPPED, worker_id="w")
    assert heard == [{"worker_id": "w"}]
    names = [line["event"] for line in logged]
    assert names == ["worker.started", "subscriber_failed", "worker.stopped"]
    assert (logged[1]["to"], logged[1]["error_class"]) == ("worker.started", "RuntimeError")
