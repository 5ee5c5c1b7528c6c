"""Maintenance that fails is logged by its name, and keeps no other work from being done."""

from __future__ import annotations

from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.db import DataError

from jobs.execution.events import Event
from jobs.queue import enqueue
from jobs.registry import JobPayload, job
from jobs.states import Status
from jobs.worker import completer, maintenance, sidecar
from jobs.worker.maintenance import MaintenanceTask
from jobs.worker.state import Outage
from tenants.models import Firm
from tests.queue_kit import new_worker, row
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]

Logged = list[tuple[Event, dict[str, Any]]]


def failures_logged_by(module: Any, monkeypatch: pytest.MonkeyPatch) -> Logged:
    """Return the list to which the failures that the module logs are added."""
    logged: Logged = []

    def note(event: Event, **facts: Any) -> None:
        if event == Event.MAINTENANCE_FAILED:
            logged.append((event, facts))

    monkeypatch.setattr(module, "emit", note)
    return logged


def refuse(*_: Any) -> None:
    raise DataError("value out of range: ann@acme.example")


def failed(task: str) -> Logged:
    """Return what is logged of it: the class alone, because the message may quote a value."""
    return [(Event.MAINTENANCE_FAILED, {"task": task, "error_class": "DataError"})]


def test_a_task_that_the_database_refuses_is_logged_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged = failures_logged_by(maintenance, monkeypatch)
    ran: list[str] = []
    loop = worker_loop()
    tasks = [
        MaintenanceTask("prune", 60.0, refuse),
        MaintenanceTask("fold_counters", 60.0, lambda: ran.append("fold_counters")),
    ]
    for task in tasks:
        loop._maintenance._try(task.name, task.run, Outage(loop.state.rng, loop.state.stopping))
    assert logged == failed("prune")
    assert ran == ["fold_counters"]


@pytest.mark.req("W-04")
def test_an_admission_that_the_database_refuses_is_logged_and_the_outcome_is_stored(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = failures_logged_by(completer, monkeypatch)
    monkeypatch.setattr(completer, "admit", refuse)

    @job("test.keyed", category="sync", payload=JobPayload, lock_key=lambda _: "key")
    def handle(payload: JobPayload, ctx: Any) -> None:
        pass

    added = [enqueue("test.keyed", {}, firm=firm).job_id for _ in range(2)]
    with working(worker_loop(burst=False, job_types=("test.keyed",))):
        # The sweep of the same worker admits the second one.
        wait_until(lambda: all(row(one).status == Status.COMPLETED for one in added), "their end")
        wait_until(lambda: len(logged) == 2, "the lines of the log")
    assert logged == failed("admit") * 2


@pytest.mark.req("W-04")
def test_a_request_that_fails_in_the_sidecar_is_logged_and_the_next_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged = failures_logged_by(sidecar, monkeypatch)
    worker_id = new_worker()
    beats: list[UUID] = []

    def end(code: int) -> None:
        raise SystemExit(code)

    def refuse_once(beating: UUID, _: None) -> None:
        beats.append(beating)
        if len(beats) == 1:
            # The supervisor asks again, and then ends.
            server._requests.put(worker_id.bytes)
            server._requests.put(None)
            server._ended.set()
            refuse()

    monkeypatch.setattr(sidecar, "os", SimpleNamespace(_exit=end))
    monkeypatch.setattr(sidecar, "heartbeat", refuse_once)
    ours, theirs = Pipe()
    server = sidecar._Server(theirs, [])
    server._requests.put(worker_id.bytes)
    with ours, theirs, pytest.raises(SystemExit):
        server._work()
    assert logged == failed("sidecar")
    assert beats == [worker_id] * 2
