"""Outcomes gather while many come, but never where somebody may wait for what one of them held."""

from __future__ import annotations

import pytest
from django.db.models import Max

from jobs.engine import fair_share, rounds
from jobs.engine.outcomes import Completed
from jobs.engine.settlement import Settlement
from jobs.execution.context import JobContext
from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue_many
from jobs.registry import JobPayload, JobType, job
from jobs.states import Status
from jobs.worker import completer, worker
from jobs.worker.state import WorkerState
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import row, take_one
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


@pytest.mark.req("J-20", "J-23")
def test_the_next_claim_hears_of_jobs_that_were_let_through(firm: Firm) -> None:
    enqueue_many([EnqueueSpec("test.keyed", {"key": "a"})] * 2, firm=firm)
    state = WorkerState()
    writer = completer.Completer(state, lambda claims: None)
    writer.start()
    for another in (True, False):
        state.round_is_stale.clear()
        writer.submit([Settlement(take_one(), Completed({}), 0.1)])
        assert writer.drain(30)
        assert state.round_is_stale.is_set() is another
    state.halt.set()


@pytest.mark.timeout(120)
@pytest.mark.req("J-20", "J-23")
def test_a_strand_goes_on_in_the_midst_of_a_round(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "ROUND_SECONDS", FOR_EVER)
    monkeypatch.setattr(rounds, "LONGEST_ROUND_SECONDS", FOR_EVER)
    monkeypatch.setattr(rounds, "LEAST_BATCH", 1)
    monkeypatch.setattr(fair_share, "LEAST_BATCH", 1)
    monkeypatch.setattr(worker, "LARGEST_CLAIM", 10)
    enqueue_many([EnqueueSpec("test.keyed", {"key": "a"})] * 3, firm=firm)
    enqueue_many([EnqueueSpec("noop")] * 1_500, firm=firm)
    worker_loop().run()
    with all_firms("test"):
        last = dict(JobQueue.objects.values_list("job_type").annotate(Max("claimed_at")))
    assert last["test.keyed"] < last["noop"]
