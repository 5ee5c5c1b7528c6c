"""Locks that user code takes for a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from jobs.engine.admission import sweep
from jobs.engine.clock import stopped_at
from jobs.engine.prune import prune
from jobs.engine.user_locks import MAX_TTL_SECONDS
from jobs.errors import LockInvalid
from jobs.queries.lists import held_locks
from jobs.queue import acquire_lock, release_lock, renew_lock
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import later, locks, row

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-21")]

RACERS = 6


def shown() -> list[str]:
    """Return the keys of the locks that lists show as held."""
    with all_firms("test"):
        return sorted(lock.lock_key for lock in held_locks())


def test_a_lock_has_one_holder_in_a_firm(firm: Firm, other_firm: Firm) -> None:
    first = acquire_lock("report", 60, firm=firm, holder_id="ada")
    assert first is not None
    assert (first.lock_key, first.holder_id, first.firm_id) == ("report", "ada", firm.pk)
    assert acquire_lock("report", 60, firm=firm) is None
    assert acquire_lock("report", 60, firm=firm, holder_id="ada") is None
    assert acquire_lock("another", 60, firm=firm) is not None
    assert acquire_lock("report", 60, firm=other_firm) is not None


def test_a_lock_is_free_once_its_holder_releases_it(firm: Firm) -> None:
    first = acquire_lock("report", 60, firm=firm)
    assert first is not None
    assert release_lock(first)
    assert not release_lock(first)
    second = acquire_lock("report", 60, firm=firm)
    assert second is not None
    assert second.fencing_token > first.fencing_token


@pytest.mark.parametrize("claim", [{"holder_id": "eve"}, {"fencing_token": -1}])
def test_only_the_holder_releases_or_renews(firm: Firm, claim: dict[str, Any]) -> None:
    held = acquire_lock("report", 60, firm=firm, holder_id="ada")
    assert held is not None
    (before,) = locks()
    for name, value in claim.items():
        setattr(held, name, value)
    assert not renew_lock(held, 3600)
    assert not release_lock(held)
    (after,) = locks()
    assert after.expires_at == before.expires_at


def test_a_lock_is_held_to_the_end_of_its_time_and_free_after_it(firm: Firm) -> None:
    with later(0) as now:
        assert acquire_lock("report", 60, firm=firm)
    with stopped_at(now + timedelta(seconds=59.5)):
        assert acquire_lock("report", 60, firm=firm) is None
    with stopped_at(now + timedelta(seconds=60.5)):
        assert acquire_lock("report", 60, firm=firm)


def test_an_expired_lock_is_taken_over_and_its_old_holder_comes_too_late(firm: Firm) -> None:
    old = acquire_lock("report", 60, firm=firm)
    with later(61):
        new = acquire_lock("report", 60, firm=firm)
        assert old is not None
        assert new is not None
        assert new.fencing_token > old.fencing_token
        assert not renew_lock(old, 60)
        assert not release_lock(old)
        (held,) = locks()
        assert (held.pk, held.fencing_token) == (new.pk, new.fencing_token)
        assert renew_lock(new, 60)
        assert release_lock(new)


def test_a_job_takes_an_expired_lock_over(firm: Firm, add: Callable[..., Any]) -> None:
    old = acquire_lock("key", 60, firm=firm)
    assert old is not None
    job_id = add("test.locked", "key")
    sweep()
    assert row(job_id).waiting
    with later(61):
        sweep()
        assert row(job_id).ready
        assert not renew_lock(old, 60)
        assert not release_lock(old)
    (held,) = locks()
    assert held.holder_id == f"job:{job_id}"
    assert held.fencing_token > old.fencing_token


def test_a_renewed_lock_is_held_from_then_on(firm: Firm) -> None:
    held = acquire_lock("report", 60, firm=firm)
    assert held is not None
    with later(50):
        assert renew_lock(held, 60)
    with later(100):
        assert acquire_lock("report", 60, firm=firm) is None
    with later(115):
        assert not renew_lock(held, 60)
        assert acquire_lock("report", 60, firm=firm)


def test_of_many_who_come_for_an_expired_lock_one_gets_it(firm: Firm) -> None:
    first = acquire_lock("report", 60, firm=firm)
    assert first is not None
    line = Barrier(RACERS)

    def come(_: int) -> int | None:
        try:
            with later(61):
                line.wait(30)
                lock = acquire_lock("report", 60, firm=firm.pk)
                return lock and lock.fencing_token
        finally:
            connection.close()

    with ThreadPoolExecutor(RACERS) as racers:
        (won,) = [token for token in racers.map(come, range(RACERS)) if token]
    assert won > first.fencing_token


@pytest.mark.parametrize(
    "seconds", [0, -1, 0.0001, MAX_TTL_SECONDS + 1, 1e300, float("inf"), float("nan")]
)
def test_a_time_that_no_lock_may_last_is_refused(firm: Firm, seconds: float) -> None:
    with pytest.raises(LockInvalid) as refused:
        acquire_lock("report", seconds, firm=firm)
    assert [(fault["field"], fault["code"]) for fault in refused.value.errors] == [
        ("ttl_seconds", "out_of_range")
    ]
    assert locks() == []
    held = acquire_lock("report", 60, firm=firm)
    assert held is not None
    with pytest.raises(LockInvalid, match="ttl_seconds"):
        renew_lock(held, seconds)
    assert [lock.expires_at for lock in locks()] == [held.expires_at]


@pytest.mark.parametrize("seconds", [0.001, 0.5, MAX_TTL_SECONDS])
def test_a_lock_lasts_as_long_as_it_was_taken_for(firm: Firm, seconds: float) -> None:
    held = acquire_lock("report", seconds, firm=firm)
    assert held is not None
    assert held.expires_at - held.acquired_at == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("key", {"key": ""}),
        ("key", {"key": "k" * 201}),
        ("key", {"key": "a\x00b"}),
        ("key", {"key": "a\ud800b"}),
        ("holder_id", {"holder_id": ""}),
        ("holder_id", {"holder_id": "h" * 201}),
        ("holder_id", {"holder_id": "job:mine"}),
        ("holder_id", {"holder_id": "\udfff"}),
    ],
)
def test_a_name_that_no_lock_may_have_is_refused(
    firm: Firm, field: str, arguments: dict[str, str]
) -> None:
    with pytest.raises(LockInvalid) as refused:
        acquire_lock(**{"key": "report", "ttl_seconds": 60, "firm": firm, **arguments})
    assert [fault["field"] for fault in refused.value.errors] == [field]
    assert locks() == []


def test_a_lock_whose_time_is_up_is_not_shown_as_held(firm: Firm, add: Callable[..., Any]) -> None:
    acquire_lock("short", 60, firm=firm)
    acquire_lock("long", 3600, firm=firm)
    add("test.locked", "of a job")
    assert shown() == ["long", "of a job", "short"]
    with later(61):
        assert shown() == ["long", "of a job"]


@pytest.mark.req("J-22")
def test_the_purge_deletes_locks_whose_time_is_up_and_no_other(
    firm: Firm, other_firm: Firm, add: Callable[..., Any]
) -> None:
    acquire_lock("short", 60, firm=firm)
    acquire_lock("long", 3600, firm=firm)
    acquire_lock("short", 60, firm=other_firm)
    add("test.locked", "of a job")
    assert prune(firm).locks == 0
    with later(61):
        assert prune(firm).locks == 1
        assert prune(firm).locks == 0
    assert sorted((lock.firm_id, lock.lock_key) for lock in locks()) == sorted(
        [(firm.pk, "long"), (firm.pk, "of a job"), (other_firm.pk, "short")]
    )
