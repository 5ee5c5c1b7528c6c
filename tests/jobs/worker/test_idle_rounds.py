"""A worker that has nothing to do, and remembers from a costly look who had work."""

from __future__ import annotations

import pytest

from jobs.engine import rounds
from jobs.models import JobQueue
from jobs.queue import enqueue
from jobs.states import Status
from tenants.scope import all_firms
from tests.support.backlog import make_firms
from tests.support.waiting import wait_until
from tests.support.worker_loop import worker_loop, working

RARELY_SECONDS = 600.0
GLANCE_SECONDS = 1.0


def completed() -> int:
    with all_firms("test"):
        return JobQueue.objects.filter(status=Status.COMPLETED).count()


@pytest.mark.django_db(transaction=True)
@pytest.mark.req("J-08", "W-02")
def test_a_hint_of_a_firm_that_the_round_does_not_know_is_followed_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "COSTLY_LOOK_SECONDS", -1.0)
    monkeypatch.setattr(rounds, "ROUND_SECONDS", GLANCE_SECONDS)
    monkeypatch.setattr(rounds, "LONGEST_ROUND_SECONDS", RARELY_SECONDS)
    monkeypatch.setattr(rounds, "ROUND_PER_LOOK", 1e9)
    known, unknown = make_firms(2)
    enqueue("noop", {}, firm=known)
    loop = worker_loop(concurrency=2 * rounds.LEAST_BATCH, burst=False, poll_seconds=RARELY_SECONDS)
    with working(loop):
        wait_until(lambda: completed() == 1, "the first job")
        enqueue("noop", {}, firm=unknown)
        wait_until(lambda: completed() == 2, "the job of a firm that had none", timeout=30)
