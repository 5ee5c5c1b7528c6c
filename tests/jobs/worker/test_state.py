"""A worker ends when one of its threads fails, and leaves the rest to the end of its lease."""

from __future__ import annotations

from uuid import UUID

import pytest

from jobs.models import Worker
from jobs.worker import maintenance
from jobs.worker.worker import WorkerLoop, WorkerOptions
from tests.support.scenario import Scenario


@pytest.mark.req("W-04")
def test_a_worker_that_lost_a_thread_ends_and_claims_nothing_more(
    queue: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug nobody foresaw")

    monkeypatch.setattr(maintenance, "drop_idle_breakers", fail)
    loop = WorkerLoop(WorkerOptions(concurrency=1, poll_seconds=0.05, grace_seconds=1))

    loop.run()

    assert loop.state.broken.is_set()
    assert not loop.is_ready()
    # Its row stays until its lease ends and others rescue its jobs.
    held = [UUID(str(row.id)) for row in Worker.objects.all()]
    assert held == [loop.state.worker_id]
