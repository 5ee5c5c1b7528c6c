"""Subscribers are told of events, and cannot disturb the code that emits them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from jobs.execution import events, telemetry
from jobs.execution.events import Event, emit, subscribe


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the list of the lines that are logged from now on; no event has subscribers."""
    written: list[tuple[str, Mapping[str, Any]]] = []

    def log(event: str, fields: Mapping[str, Any], *, problem: bool) -> None:
        written.append((event, fields))

    monkeypatch.setattr(events, "_subscribers", defaultdict(list))
    monkeypatch.setattr(telemetry, "log", log)
    return written


@pytest.mark.req("W-04")
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_subscriber_that_fails_stops_nobody(
    lines: list[tuple[str, Mapping[str, Any]]], error: type[BaseException]
) -> None:
    heard: list[Mapping[str, Any]] = []

    def fail(fields: object) -> None:
        raise error("told to fail")

    subscribe(Event.WORKER_STARTED, fail)
    subscribe(Event.WORKER_STARTED, heard.append)
    emit(Event.WORKER_STARTED, worker_id="w")
    emit(Event.WORKER_STOPPED, worker_id="w")
    assert heard == [{"worker_id": "w"}]
    assert [event for event, _ in lines] == [
        "worker.started",
        "subscriber_failed",
        "worker.stopped",
    ]
    failed = dict(lines[1][1])
    assert failed.pop("subscriber").endswith(
        "test_a_subscriber_that_fails_stops_nobody.<locals>.fail"
    )
    assert failed == {"to": "worker.started", "error_class": error.__name__}


@dataclass
class Webhook:
    """A subscriber that holds a secret."""

    url: str

    def __call__(self, fields: object) -> None:
        """Fail."""
        post(self.url, fields)


def post(url: str, fields: object) -> None:
    raise RuntimeError("told to fail")


@pytest.mark.parametrize(
    ("subscriber", "name"),
    [(partial(post, "example.com/a1b2"), "post"), (Webhook("example.com/a1b2"), "Webhook")],
)
def test_the_line_of_a_failed_subscriber_tells_nothing_of_its_arguments(
    lines: list[tuple[str, Mapping[str, Any]]], subscriber: Callable[..., None], name: str
) -> None:
    subscribe(Event.WORKER_STARTED, subscriber)
    emit(Event.WORKER_STARTED, worker_id="w")
    assert lines[1][1]["subscriber"] == f"{__name__}.{name}"
