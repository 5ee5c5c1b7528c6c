"""One firm, and an empty record of what the tasks did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs.conf import lease_seconds
from jobs.testing.run import run_maintenance
from tenants.models import Firm
from tests.jobs.tasks_backend import tasks
from tests.jobs.tasks_backend.framework import (
    TaskResult,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from tests.queue_kit import later

Told = list[tuple[str, TaskResultStatus, int]]


@pytest.fixture(autouse=True)
def only_firm(firm: Firm) -> Firm:
    """Create the only firm, so that enqueues need not name it."""
    return firm


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    """Forget what earlier tests did."""
    tasks.seen.clear()
    yield
    tasks.seen.clear()


@pytest.fixture
def rescue_all(settled_database: None) -> Callable[[], None]:
    """Return a function that rescues the jobs of every worker, as if the leases were over."""

    def rescue() -> None:
        with later(lease_seconds() + 1):
            run_maintenance()

    return rescue


@pytest.fixture
def told() -> Iterator[Told]:
    """Return a list of all signals since: name, status, number of errors so far."""
    heard: Told = []

    def listener(name: str) -> Any:
        def hear(sender: type, task_result: TaskResult[Any], **kwargs: Any) -> None:
            heard.append((name, task_result.status, len(task_result.errors)))

        return hear

    signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
    listeners = {name: listener(name) for name in signals}
    for name, signal in signals.items():
        signal.connect(listeners[name], weak=False)
    yield heard
    for name, signal in signals.items():
        signal.disconnect(listeners[name])
