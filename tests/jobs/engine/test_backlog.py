"""Claims from a long backlog continue where the last one ended: in order, and without a scan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from jobs.engine import dialects, fair_share
from jobs.engine.admission import sweep
from jobs.engine.claim import Claim, claim
from jobs.engine.clock import database_now
from jobs.engine.fair_share import FairShare
from jobs.engine.release import release
from jobs.queue import EnqueueSpec, enqueue_many, pause
from tests.factories.tenants import FirmFactory
from tests.queue_kit import new_worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-08", "J-23")]

BATCH = fair_share.LEAST_CLAIM


class Worker:
    """Claims batches, and counts the scans for firms with work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fair_share = FairShare()
        self.scans = 0
        self._worker_id = new_worker()
        kind = type(dialects.current())
        scan = kind.firms_with_work

        def counted(dialect, ranges, wanted, most):
            # The check whether other firms have work asks for one firm only, and is not counted.
            self.scans += most > 1
            return scan(dialect, ranges, wanted, most)

        monkeypatch.setattr(kind, "firms_with_work", counted)

    def claim(self, limit: int = BATCH) -> list[Claim]:
        return claim(self._worker_id, limit, self.fair_share)

    def end_backlog(self) -> None:
        assert self.fair_share.backlog is not None
        self.fair_share.backlog = replace(self.fair_share.backlog, until=0.0)


@pytest.fixture
def worker(monkeypatch) -> Worker:
    # No backlog may be over only because the machine is slow.
    monkeypatch.setattr(fair_share, "BACKLOG_SECONDS", 3600.0)
    return Worker(monkeypatch)


def add_many(firm, number: int, **options) -> list[UUID]:
    return [
        job.job_id
        for job in enqueue_many([EnqueueSpec("test.work", **options)] * number, firm=firm)
    ]


def ids(claims: list[Claim]) -> list[UUID]:
    return [held.job_id for held in claims]


def test_full_claims_go_on_in_order_without_a_scan(firm, worker):
    # One statement enqueues all, so all are due at the same time.
    expected = sorted(add_many(firm, 3 * BATCH + 120), key=lambda job_id: job_id.int)
    for number in range(3):
        assert ids(worker.claim()) == expected[number * BATCH : (number + 1) * BATCH]
    assert worker.scans == 1
    # The first claim that is not filled is the last one without a scan.
    assert ids(worker.claim(150)) == expected[3 * BATCH :]
    assert worker.fair_share.backlog is None
    assert worker.claim() == []
    assert worker.scans == 2


def test_firms_share_a_backlog(firm, other_firm, worker):
    third = FirmFactory(weight=2)
    for one in (firm, other_firm, third):
        add_many(one, 3 * BATCH)
    shares = Counter(held.firm_id for _ in range(4) for held in worker.claim())
    assert shares == {firm.pk: BATCH, other_firm.pk: BATCH, third.pk: 2 * BATCH}
    assert worker.scans == 1


def test_each_batch_begins_with_the_firm_after_the_last(worker):
    firms = [FirmFactory() for _ in range(3)]
    for one in firms:
        add_many(one, 2 * BATCH)
    shares = Counter(held.firm_id for _ in range(3) for held in worker.claim())
    assert shares == {one.pk: BATCH for one in firms}
    assert worker.scans == 1


def test_a_capped_firm_in_a_backlog_runs_as_many_as_its_cap(firm, worker):
    capped = FirmFactory(running_cap=5)
    for one in (firm, capped):
        add_many(one, 4 * BATCH)
    sweep()
    shares = Counter(held.firm_id for _ in range(3) for held in worker.claim())
    assert shares[capped.pk] == 5
    assert shares[firm.pk] >= BATCH


def test_what_is_more_urgent_comes_next(firm, other_firm, worker):
    add_many(firm, 4 * BATCH)
    worker.claim()
    for one in (firm, other_firm):
        urgent = add_many(one, 1, priority=0)
        assert ids(worker.claim()) == urgent
    assert len(worker.claim()) == BATCH


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_firm_that_comes_late_has_its_turn_in_the_next_batch(place, worker):
    firms = [FirmFactory() for _ in range(3)]
    late = firms.pop(place)
    for one in firms:
        add_many(one, 2 * BATCH)
    worker.claim()
    assert len(worker.claim()) == BATCH
    [job_id] = add_many(late, 1)
    assert job_id in ids(worker.claim())
    assert worker.scans == 2


def test_what_was_given_back_is_claimed_when_the_backlog_is_over(firm, worker):
    early = add_many(firm, 4 * BATCH)
    first = worker.claim()
    release(first, "test")
    assert not set(ids(worker.claim())) & set(ids(first))
    worker.end_backlog()
    assert ids(worker.claim()) == ids(first)
    assert set(early) > set(ids(first))


def test_a_pause_holds_at_once(firm, worker):
    add_many(firm, 2 * BATCH)
    worker.claim()
    pause(firm=firm, reason="test")
    assert worker.claim() == []


def test_a_claim_of_other_jobs_scans(firm, worker):
    add_many(firm, 4 * BATCH)
    worker.claim()
    assert claim(new_worker(), BATCH, worker.fair_share, categories=("sync",)) is not None
    assert worker.scans == 2


def test_a_claim_of_few_scans(firm, worker):
    add_many(firm, 4 * BATCH, at=database_now() - timedelta(days=1))
    worker.claim()
    worker.claim(BATCH - 1)
    worker.claim(BATCH - 1)
    assert worker.scans == 3
