"""A maintenance task that fails is logged by its name, and keeps no other from running."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError

from jobs.execution.events import Event
from jobs.worker import maintenance
from jobs.worker.maintenance import MaintenanceTask
from jobs.worker.state import Outage
from tests.support.worker_loop import worker_loop

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("job_types")]


def test_a_task_that_the_database_refuses_is_logged_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[tuple[Event, dict[str, Any]]] = []
    monkeypatch.setattr(maintenance, "emit", lambda event, **facts: logged.append((event, facts)))

    def refuse() -> None:
        raise DataError("value out of range: ann@acme.example")

    ran: list[str] = []
    loop = worker_loop()
    tasks = [
        MaintenanceTask("prune", 60.0, refuse),
        MaintenanceTask("fold_counters", 60.0, lambda: ran.append("fold_counters")),
    ]
    for task in tasks:
        loop._maintenance._try(task.name, task.run, Outage(loop.state.rng, loop.state.stopping))
    # The class alone, because the message may quote a value.
    assert logged == [(Event.MAINTENANCE_FAILED, {"task": "prune", "error_class": "DataError"})]
    assert ran == ["fold_counters"]
