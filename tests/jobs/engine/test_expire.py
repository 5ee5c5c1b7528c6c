"""Jobs that expire before they start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.engine import prune as module
from jobs.engine.clock import database_now
from jobs.engine.prune import expire
from tests.queue_kit import counted, dead_letters, later, locks, row, take_one

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-08")]


@pytest.fixture
def soon():
    return database_now() + timedelta(seconds=30)


def test_an_expired_job_fails_without_a_dead_letter(add, soon):
    job_id, other = add(expires_at=soon, idempotency_key="key"), add()
    assert expire() == 0
    with later(31) as now:
        assert expire() == 1
    stored = row(job_id)
    assert (stored.status, stored.last_error, stored.attempts) == ("failed", "expired", 0)
    assert (stored.ready, stored.waiting, stored.live_key) == (False, False, None)
    assert stored.completed_at == now
    assert row(other).status == "pending"
    assert (counted("failed"), dead_letters()) == (1, [])


def test_a_job_that_started_in_time_goes_on(add, soon):
    job_id = add(expires_at=soon)
    take_one()
    with later(31):
        assert expire() == 0
    assert row(job_id).status == "claimed"


def test_waiting_for_a_lock_or_for_later_does_not_protect(add, soon):
    holder = add("test.locked", "key")
    waiting = add("test.locked", "key", expires_at=soon)
    scheduled = add(delay=3600, expires_at=soon)
    with later(31):
        assert expire() == 2
    assert (row(waiting).status, row(scheduled).status) == ("failed", "failed")
    assert [lock.holder_id for lock in locks()] == [f"job:{holder}"]


def test_the_slot_of_an_expired_job_is_freed(add, soon):
    add("test.locked", "key", expires_at=soon)
    with later(31):
        assert expire() == 1
    assert locks() == []


def test_it_works_in_batches(monkeypatch, add, soon):
    monkeypatch.setattr(module, "BATCH", 2)
    for _ in range(5):
        add(expires_at=soon)
    with later(31):
        assert [expire() for _ in range(4)] == [2, 2, 1, 0]
