"""Pending work says of each maintenance task whether it has anything to do; reading it is cheap."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from jobs.engine.clock import database_now
from jobs.engine.pending_work import PendingWork, PendingWorkReader, read_pending_work
from jobs.models import CircuitBreaker, Schedule
from jobs.queue import pause, set_rate_limit
from jobs.states import BreakerState
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import later, new_worker, take_one
from tests.support.backlog import fill, make_firms

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-08", "W-02")]

NOTHING = PendingWork._make([*[False] * (len(PendingWork._fields) - 1), None])

Add = Callable[..., Any]


def seen(**options: Any) -> PendingWork:
    """Return the pending work, without the table's size and the time at which it was read."""
    return read_pending_work(**options)._replace(pages=0, database_time=None)


def test_an_empty_queue_asks_for_nothing(firm: Firm) -> None:
    assert seen() == NOTHING


def test_a_job_that_may_run_now_is_seen_by_those_who_serve_it(add: Add) -> None:
    add()
    assert seen() == NOTHING._replace(claimable=True)
    assert seen(job_types=["test.locked"]) == NOTHING
    assert seen(categories=["export"]) == NOTHING
    take_one()
    assert seen() == NOTHING


def test_maintenance_does_not_read_what_there_is_to_claim(add: Add) -> None:
    add(expires_at=database_now() + timedelta(seconds=30))
    add("test.locked", "key")
    add("test.locked", "key")
    with later(31):
        assert read_pending_work().claimable
        assert seen(claims=False) == NOTHING._replace(expiring=True, waiting=True)
        assert PendingWorkReader().for_maintenance() == read_pending_work(claims=False)


def test_it_says_when_it_was_read(firm: Firm) -> None:
    with later(31) as now:
        assert read_pending_work().database_time == now


def test_a_job_for_later_is_seen_when_its_time_comes(add: Add) -> None:
    add(delay=60)
    assert seen() == NOTHING
    with later(61):
        assert read_pending_work().claimable


def test_a_job_that_waits_for_a_lock(add: Add) -> None:
    add("test.locked", "key")
    add("test.locked", "key")
    assert seen() == NOTHING._replace(claimable=True, waiting=True)


def test_a_job_whose_time_is_over(add: Add) -> None:
    add(expires_at=database_now() + timedelta(seconds=30))
    assert not read_pending_work().expiring
    with later(31):
        assert seen() == NOTHING._replace(expiring=True)


def limit_running(firm: Firm) -> None:
    Firm.objects.filter(pk=firm.pk).update(running_cap=1)


@pytest.mark.parametrize(
    "hold_back",
    [
        lambda firm: pause(firm=firm, reason="x"),
        lambda firm: set_rate_limit("test.work", 1, 60, firm=firm),
        limit_running,
    ],
    ids=["pause", "rate", "cap"],
)
def test_whatever_holds_jobs_back(firm: Firm, hold_back: Callable[[Firm], object]) -> None:
    hold_back(firm)
    assert seen() == NOTHING._replace(limited=True)


def test_a_breaker_that_is_not_closed(firm: Firm) -> None:
    with all_firms("test"):
        CircuitBreaker.objects.create(
            firm=firm, job_type="test.work", state=BreakerState.OPEN, window_ends_at=database_now()
        )
    assert seen() == NOTHING._replace(open_breakers=True, limited=True)


def test_a_worker_whose_lease_is_over(firm: Firm) -> None:
    new_worker()
    assert seen() == NOTHING
    with later(3600):
        assert seen() == NOTHING._replace(dead_workers=True)


def test_a_schedule_that_is_due(firm: Firm) -> None:
    with all_firms("test"):
        row = Schedule.objects.create(firm=firm, name="x", job_type="noop", interval_seconds=60)
        Schedule.objects.filter(pk=row.pk).update(next_run_at=database_now() + timedelta(hours=1))
    assert seen() == NOTHING
    with later(3601):
        assert seen() == NOTHING._replace(due_schedules=True)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="counts round trips to a server")
def test_it_is_one_round_trip_however_much_there_is(firm: Firm) -> None:
    fill({firm.pk: 2_000})
    fill(dict.fromkeys(make_firms(20), 5))
    asked: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        assert read_pending_work().claimable
    # Both statements are sent together.
    opening, _ = asked
    assert opening.startswith("SELECT set_config")
