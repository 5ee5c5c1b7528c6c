"""What a worker claims when a notification names a job."""

from __future__ import annotations

from uuid import UUID

import pytest

from jobs.engine.wakeup import AnnouncedJob
from jobs.queue import enqueue
from jobs.states import Status
from jobs.worker import claimer
from jobs.worker.claimer import Claimer
from jobs.worker.completer import Completer
from jobs.worker.listener import Listener
from jobs.worker.pool import Pool
from jobs.worker.state import SharedState
from tenants.models import Firm
from tests.queue_kit import new_worker, row
from tests.support.databases import listeners, postgresql_only
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("job_types"),
    pytest.mark.req("W-02"),
]


def announcement(job_id: UUID, firm: Firm, priority: int) -> str:
    """Return the text of a notification that names this job."""
    return AnnouncedJob(job_id, firm.pk, priority, "maintenance", "noop").to_text()


def new_claimer(threads: int, *, categories: tuple[str, ...] = ()) -> tuple[Claimer, Listener]:
    """Return the claimer of an idle worker with that many threads, and its listener."""
    state = SharedState()
    state.lease.worker_id = new_worker()
    completer, listener = Completer(state), Listener(state)
    submit, unsettled, on_idle = completer.submit, completer.unsettled, completer.expect_no_more
    pool = Pool(state, threads, submit, unsettled, on_idle, listener.wake)
    return Claimer(state, pool, completer, listener, categories=categories, job_types=()), listener


@pytest.mark.parametrize(("threads", "first"), [(1, "urgent"), (2, "announced")])
def test_an_announced_job_comes_first_while_a_thread_is_left(
    firm: Firm, threads: int, first: str
) -> None:
    ids = {
        "urgent": enqueue("noop", firm=firm, priority=0).job_id,
        "announced": enqueue("noop", firm=firm, priority=3).job_id,
    }
    claims, listener = new_claimer(threads)
    listener.hear(announcement(ids["announced"], firm, 3))
    assert [one.job_id for one in claims.claim(1)] == [ids[first]]
    assert listener.take_announced() is None
    # The next claim takes the other job.
    (second,) = set(ids.values()) - {ids[first]}
    assert [one.job_id for one in claims.claim(1)] == [second]
    assert claims.claimed == 2
    assert not claims.in_doubt


@pytest.mark.parametrize("text", ["sync", "gone"])
def test_where_it_is_gone_or_none_is_named_the_first_is_claimed(firm: Firm, text: str) -> None:
    job_id, gone = (enqueue("noop", firm=firm).job_id for _ in range(2))
    claims, listener = new_claimer(4)
    if text == "gone":
        text = announcement(gone, firm, 0)
    listener.hear(text)
    assert [one.job_id for one in claims.claim(1)] == [job_id]


@pytest.mark.parametrize(
    ("category", "asks"), [("export", False), ("maintenance", True)], ids=["others", "its own"]
)
def test_a_worker_asks_only_for_an_announced_job_that_it_serves(
    firm: Firm, monkeypatch: pytest.MonkeyPatch, category: str, asks: bool
) -> None:
    asked = []
    monkeypatch.setattr(claimer, "claim_announced", lambda *args, **_: asked.append(args) or [])
    claims, listener = new_claimer(4, categories=(category,))
    listener.hear(announcement(enqueue("noop", firm=firm).job_id, firm, 3))
    claims.claim(1)
    assert bool(asked) == asks


@postgresql_only
def test_an_idle_worker_starts_what_is_enqueued_without_a_scan(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimer, "claim", lambda *_, **__: [])
    with working(worker_loop(burst=False, poll_seconds=30)):
        wait_until(listeners, "the worker to listen")
        # A job has no notification right after another, such as one for the worker's own schedules,
        # so more than one job is enqueued.
        job_ids: list[UUID] = []

        def one_is_completed() -> bool:
            job_ids.append(enqueue("noop", firm=firm).job_id)
            return any(row(one).status == Status.COMPLETED for one in job_ids)

        wait_until(one_is_completed, "a job")
