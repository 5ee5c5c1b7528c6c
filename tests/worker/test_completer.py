"""Outcomes gather while many come, but never where somebody may wait for what one of them held."""

from __future__ import annotations

import pytest

from jobs.context import JobContext
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.registry import JobPayload, job
from jobs.states import Status
from jobs.worker import completer
from tenants.models import Firm
from tests.queue_kit import row
from tests.support.worker_loop import worker_loop

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("job_types"),
    pytest.mark.req("W-02", "J-20"),
]

# Longer than the test may take: whoever waits for that is found out.
FOR_EVER = 600.0


class KeyPayload(JobPayload):
    """Whose lock the job needs."""

    key: str


@pytest.mark.timeout(120)
def test_a_lock_is_handed_on_however_many_outcomes_gather(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "MANY", 1)
    monkeypatch.setattr(completer, "GATHER_SECONDS", FOR_EVER)

    def handle(payload: KeyPayload, ctx: JobContext) -> None:
        pass

    job(
        "test.keyed",
        category="sync",
        payload=KeyPayload,
        lock_key=lambda payload: f"key:{payload.key}",
    )(handle)
    added = enqueue_many([EnqueueSpec("test.keyed", {"key": "a"})] * 5, firm=firm)
    worker_loop().run()
    assert {row(one.job_id).status for one in added} == {Status.COMPLETED}


@pytest.mark.timeout(120)
def test_enough_outcomes_are_written_without_waiting_for_more(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "MANY", 1)
    monkeypatch.setattr(completer, "ENOUGH", 5)
    monkeypatch.setattr(completer, "GATHER_SECONDS", FOR_EVER)
    added = enqueue_many([EnqueueSpec("noop")] * 5, firm=firm)
    worker_loop(concurrency=5).run()
    assert {row(one.job_id).status for one in added} == {Status.COMPLETED}
