"""Outcomes gather while many come, but never where somebody may wait for what one of them held."""

from __future__ import annotations

import pytest
from django.db.models import Max

from jobs.execution.context import JobContext
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.registry import JobPayload, JobType, job
from jobs.states import Status
from jobs.worker import completer, worker
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import row
from tests.support.worker_loop import worker_loop

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("W-02", "J-20"),
]

# Longer than the test may take: whoever waits for that is found out.
FOR_EVER = 600.0


class KeyPayload(JobPayload):
    """Whose lock the job needs."""

    key: str


@pytest.fixture(autouse=True)
def keyed_type(job_types: dict[str, JobType]) -> None:
    """Declare `test.keyed`, whose jobs need the lock of their key."""

    @job("test.keyed", category="sync", payload=KeyPayload, lock_key=lambda p: f"key:{p.key}")
    def handle(payload: KeyPayload, ctx: JobContext) -> None:
        pass


@pytest.mark.timeout(120)
def test_a_lock_is_handed_on_however_many_outcomes_gather(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "MANY", 1)
    monkeypatch.setattr(completer, "GATHER_SECONDS", FOR_EVER)
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


@pytest.mark.timeout(120)
@pytest.mark.req("J-20", "J-23")
def test_a_waiting_group_goes_on_beside_other_work(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LARGEST_CLAIM", 10)
    enqueue_many([EnqueueSpec("test.keyed", {"key": "a"})] * 3, firm=firm)
    enqueue_many([EnqueueSpec("noop")] * 1_500, firm=firm)
    worker_loop().run()
    with all_firms("test"):
        last = dict(JobQueue.objects.values_list("job_type").annotate(Max("claimed_at")))
    assert last["test.keyed"] < last["noop"]
