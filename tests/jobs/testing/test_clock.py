"""The queue's clock stands still, and moves when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.engine.clock import database_now
from jobs.queue import acquire_lock, enqueue, set_rate_limit
from jobs.testing import drain, frozen_time, run_job

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-27")]

NIGHT = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)


def test_it_stands() -> None:
    with frozen_time("2026-03-29T01:59:00+01:00") as clock:
        assert database_now() == clock.now == NIGHT
        job = enqueue("kit.add", delay=60).job
        assert (job.created_at, job.scheduled_at) == (NIGHT, NIGHT + timedelta(minutes=1))
    assert database_now() > NIGHT


def test_it_moves() -> None:
    with frozen_time(NIGHT) as clock:
        clock.tick(hours=1, minutes=2, seconds=3.5)
        assert database_now() == NIGHT + timedelta(hours=1, minutes=2, seconds=3.5)
        clock.tick(hours=-2)
        assert database_now() < NIGHT
        clock.move_to(NIGHT)
        assert database_now() == clock.now == NIGHT
        clock.move_to("2026-03-29T02:00+01:00")
        assert database_now() == clock.now == NIGHT + timedelta(minutes=1)


def test_it_starts_where_the_database_is() -> None:
    before = database_now()
    with frozen_time() as clock:
        assert before <= clock.now == database_now()


def test_clocks_nest() -> None:
    with frozen_time(NIGHT):
        with frozen_time("2027-01-01T00:00Z") as inner:
            inner.tick(hours=1)
        assert database_now() == NIGHT


def test_it_comes_off_when_the_test_fails() -> None:
    with pytest.raises(ZeroDivisionError), frozen_time(NIGHT) as clock:
        clock.move_to(NIGHT + timedelta(hours=1 // 0))
    assert database_now() > NIGHT


@pytest.mark.parametrize("moment", ["2026-03-29T01:59", "soon"])
def test_times_without_a_zone_are_refused(moment: str) -> None:
    with (
        pytest.raises(ValueError, match=r"^the clock takes .*aware|isoformat"),
        frozen_time(moment),
    ):
        pass
    with frozen_time(NIGHT) as clock:
        with pytest.raises(ValueError, match=r"^the clock takes .*aware|isoformat"):
            clock.move_to(moment)
        assert database_now() == clock.now == NIGHT


def test_locks_and_schedules_go_by_it() -> None:
    with frozen_time(NIGHT) as clock:
        assert acquire_lock("name:ada", 30)
        enqueue("kit.keyed", {"name": "ada"})
        assert drain().ran == ()
        clock.tick(seconds=31)
        assert drain().counts == {"completed": 1}


def test_rate_limits_go_by_it() -> None:
    set_rate_limit("kit.add", 1, 60)
    with frozen_time(NIGHT) as clock:
        for _ in range(3):
            assert run_job("kit.add").status == "completed"
            clock.tick(seconds=61)
