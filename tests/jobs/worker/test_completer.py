"""Outcomes are stored in batches, at once if somebody may wait for them, and published in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.db.models import Max

from jobs.engine import dialects
from jobs.engine.outcomes import Settlement, SettleReport
from jobs.execution.context import JobContext
from jobs.models import JobQueue
from jobs.queue import EnqueueResult, EnqueueSpec, enqueue, enqueue_many
from jobs.registry import JobPayload, JobType, job
from jobs.states import Status
from jobs.worker import completer
from jobs.worker.state import SharedState
from jobs.worker.worker import WorkerLoop
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import row
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("W-02", "J-20"),
]

# No test lasts this long, so a test that waits for it fails.
FOR_EVER = 600.0


class KeyPayload(JobPayload):
    """The key of the lock that the job needs."""

    key: str


@pytest.fixture(autouse=True)
def keyed_type(job_types: dict[str, JobType]) -> None:
    """Declare `test.keyed`, whose jobs need the lock of their key."""

    @job("test.keyed", category="sync", payload=KeyPayload, lock_key=lambda p: f"key:{p.key}")
    def handle(payload: KeyPayload, ctx: JobContext) -> None:
        pass


@pytest.fixture
def busy(
    firm: Firm, job_types: dict[str, JobType], monkeypatch: pytest.MonkeyPatch
) -> Iterator[WorkerLoop]:
    """Run a worker that collects outcomes for ever, because one of its handlers does not end."""
    monkeypatch.setattr(completer, "COLLECT_FROM", 1)
    monkeypatch.setattr(completer, "COLLECT_SECONDS", FOR_EVER)
    started, may_end = threading.Event(), threading.Event()

    @job("test.blocking", category="sync", payload=JobPayload)
    def block(_: JobPayload, ctx: JobContext) -> None:
        started.set()
        may_end.wait(FOR_EVER)

    blocking = enqueue("test.blocking", {}, firm=firm)
    served = ("noop", "test.keyed", "test.committing", "test.blocking")
    loop = worker_loop(concurrency=6, burst=False, job_types=served)
    with working(loop):
        assert started.wait(30)
        yield loop
        assert row(blocking.job_id).status != Status.COMPLETED
        may_end.set()
        wait_until_completed([blocking])


def wait_until_completed(added: Sequence[EnqueueResult]) -> None:
    wait_until(
        lambda: all(row(one.job_id).status == Status.COMPLETED for one in added), "their end"
    )


@pytest.mark.usefixtures("busy")
def test_a_lock_is_handed_on_however_many_outcomes_collect(firm: Firm) -> None:
    wait_until_completed(enqueue_many([EnqueueSpec("test.keyed", {"key": "a"})] * 5, firm=firm))


@pytest.mark.usefixtures("busy")
def test_enough_outcomes_are_written_without_waiting_for_more(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "COLLECT_UP_TO", 5)
    wait_until_completed(enqueue_many([EnqueueSpec("noop")] * 5, firm=firm))


def test_what_handlers_have_committed_waits_for_more_until_something_is_to_be_written(
    firm: Firm, busy: WorkerLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    @job("test.committing", category="sync", payload=JobPayload)
    def commit(_: JobPayload, ctx: JobContext) -> None:
        with ctx.transaction():
            pass

    monkeypatch.setattr(completer, "COLLECT_FROM", 1000)
    sizes: list[int] = []
    settle = completer.settle

    def settle_counted(batch: Sequence[Settlement], **options: Any) -> Any:
        sizes.append(len(batch))
        return settle(batch, **options)

    monkeypatch.setattr(completer, "settle", settle_counted)
    for times in range(2):
        added = enqueue_many([EnqueueSpec("test.committing")] * 3, firm=firm)
        wait_until_completed(added)
        wait_until(lambda: len(busy._completer.known_tokens()) == 3, "their outcomes")
        assert sizes == [4] * times
        wait_until_completed([enqueue("noop", firm=firm)])
        assert sizes == [4] * (times + 1)


def test_outcomes_do_not_wait_for_more_when_nothing_runs(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "COLLECT_FROM", 1)
    monkeypatch.setattr(completer, "COLLECT_SECONDS", FOR_EVER)
    with working(worker_loop(concurrency=2, burst=False, job_types=("noop",))):
        wait_until_completed(enqueue_many([EnqueueSpec("noop")] * 5, firm=firm))


@pytest.mark.req("J-20", "J-23")
def test_a_waiting_group_goes_on_beside_other_work(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects.current(), "largest_claim", 10)
    enqueue_many([EnqueueSpec("test.keyed", {"key": "a"})] * 3, firm=firm)
    enqueue_many([EnqueueSpec("noop")] * 1_500, firm=firm)
    worker_loop().run()
    with all_firms("test"):
        last = dict(JobQueue.objects.values_list("job_type").annotate(Max("claimed_at")))
    assert last["test.keyed"] < last["noop"]


class Slow:
    """Publishes a batch when the test allows it, and remembers what it has published."""

    def __init__(self) -> None:
        self.published: list[Any] = []
        self.may = threading.Semaphore(0)

    def __call__(self, batch: Any, report: SettleReport) -> dict[Any, Any]:
        self.may.acquire()
        self.published.append(batch)
        return {}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Let the test decide when a batch is published."""
    slow = Slow()
    monkeypatch.setattr(completer, "emit_settled", slow)
    return slow


@pytest.mark.req("W-07")
def test_the_next_batch_is_written_meanwhile_and_the_end_waits(slow: Slow) -> None:
    publisher = completer.EventPublisher(SharedState())
    publisher.start()
    for number in range(completer.MOST_UNPUBLISHED):
        publisher.publish([number], SettleReport())  # type: ignore[list-item]  # a batch by its number
    assert not publisher.drain(0.01)
    slow.may.release(completer.MOST_UNPUBLISHED)
    assert publisher.drain(30)
    assert slow.published == [[number] for number in range(completer.MOST_UNPUBLISHED)]
    publisher.end()


@pytest.mark.req("W-07")
def test_many_unpublished_batches_hold_the_completer_up(slow: Slow) -> None:
    publisher = completer.EventPublisher(SharedState())
    publisher.start()

    def write() -> None:
        for number in range(completer.MOST_UNPUBLISHED + 1):
            publisher.publish([number], SettleReport())  # type: ignore[list-item]  # as above

    writer = threading.Thread(target=write)
    writer.start()
    writer.join(0.2)
    assert writer.is_alive()
    slow.may.release(completer.MOST_UNPUBLISHED + 1)
    writer.join(30)
    assert publisher.drain(30)
    assert len(slow.published) == completer.MOST_UNPUBLISHED + 1
    publisher.end()


@pytest.mark.req("W-07")
def test_a_publisher_that_failed_holds_nobody_up_and_ends_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fall(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(completer, "emit_settled", fall)
    state = SharedState()
    publisher = completer.EventPublisher(state)
    publisher.start()
    for number in range(completer.MOST_UNPUBLISHED + 2):
        publisher.publish([number], SettleReport())  # type: ignore[list-item]  # as above
    wait_until(state.broken.is_set, "the worker to be broken")
    assert state.stopping.is_set()
