"""Rates over all firms: one bucket for all, shared fairly between the firms whose jobs wait."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest

from jobs.engine import candidates
from jobs.engine.admission import Sweep, admit, sweep
from jobs.engine.clock import stopped_at
from jobs.engine.outcomes import Completed
from jobs.models import RateBucket
from jobs.queries.why_waiting import WaitCode
from jobs.queue import set_rate_limit, why_waiting
from jobs.states import CountedBy
from tenants.models import Firm
from tests.queue_kit import finish, row, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-24")]

ALL_FIRMS = {"counted_by": CountedBy.ALL_FIRMS}
SWEEP_SECONDS = 0.25


class Fleet:
    """Workers that sweep, run what is admitted, and admit what that releases a little later."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._sweep = Sweep(Random(1))
        self.units: Counter[int] = Counter()

    def work(self, seconds: float) -> None:
        """Work for `seconds` seconds."""
        until = self.now + timedelta(seconds=seconds)
        while self.now < until:
            self.now += timedelta(seconds=SWEEP_SECONDS / 2)
            with stopped_at(self.now):
                while self._sweep.step():
                    pass
                running = take(100)
            self.now += timedelta(seconds=SWEEP_SECONDS / 2)
            with stopped_at(self.now):
                for one in running:
                    self.units[one.firm_id] += row(one.job_id).limit_units
                    admit(finish(one, Completed({})).released_capacity)


def test_all_firms_together_start_no_more_than_the_limit(firm, other_firm, add, now):
    set_rate_limit("test.work", 4, 60, **ALL_FIRMS)
    for _ in range(5):
        add()
        add(firm=other_firm)
        add("test.other")
    fleet = Fleet(now)
    fleet.work(1)
    assert sum(fleet.units.values()) - 5 == 4
    (bucket,) = rows(RateBucket)
    assert (bucket.firm_id, bucket.counted_by) == (Firm.objects.system().pk, "all_firms")
    fleet.work(31)
    assert sum(fleet.units.values()) - 5 == 6


def test_each_firm_takes_an_equal_share_of_what_there_is(firm, other_firm, add, now):
    set_rate_limit("test.work", 10, 10, **ALL_FIRMS)
    for _ in range(50):
        add()
    for _ in range(5):
        add(firm=other_firm)
    with stopped_at(now):
        sweep()
        assert Counter(one.firm_id for one in take(100)) == {firm.pk: 5, other_firm.pk: 5}


def test_what_one_firm_leaves_the_other_takes(firm, other_firm, add, now):
    set_rate_limit("test.work", 10, 10, **ALL_FIRMS)
    for _ in range(50):
        add()
    add(firm=other_firm)
    fleet = Fleet(now)
    fleet.work(2 * SWEEP_SECONDS)
    assert fleet.units == {firm.pk: 9, other_firm.pk: 1}


def test_a_backlog_that_is_worked_off_does_not_starve_another_firm(firm, other_firm, add, now):
    """The first firm's jobs end all the time, and each end asks for its next job."""
    set_rate_limit("test.work", 1, 1, burst=3, **ALL_FIRMS)
    for _ in range(80):
        add()
    for _ in range(30):
        add(firm=other_firm)
    fleet = Fleet(now)
    fleet.work(60)
    assert 58 <= sum(fleet.units.values()) <= 63
    assert fleet.units[other_firm.pk] >= 20


def test_many_small_jobs_of_one_firm_do_not_starve_a_big_one_of_another(firm, other_firm, add, now):
    set_rate_limit("test.mailbox", 1, 1, burst=10, **ALL_FIRMS)
    for _ in range(100):
        add("test.mailbox")
    big = add("test.mailbox", units=10, firm=other_firm)
    fleet = Fleet(now)
    # The firms come first in turn, each for the tokens of two big jobs.
    fleet.work(45)
    assert row(big).status == "completed"
    assert fleet.units[firm.pk] >= 15


def test_firms_that_one_step_of_the_sweep_does_not_reach_are_not_starved(
    firm, other_firm, add, now, monkeypatch
):
    monkeypatch.setattr(candidates, "SWEEP_GROUPS", 1)
    set_rate_limit("test.work", 8, 1, burst=4, **ALL_FIRMS)
    for _ in range(90):
        add()
        add(firm=other_firm)
    fleet = Fleet(now)
    fleet.work(10)
    assert sum(fleet.units.values()) <= 84
    assert min(fleet.units[firm.pk], fleet.units[other_firm.pk]) >= 5


@pytest.mark.parametrize("cap", [0, 1])
def test_nothing_is_saved_up_for_a_firm_whose_cap_leaves_no_room(firm, other_firm, add, now, cap):
    set_rate_limit("test.work", 1, 1, burst=1, **ALL_FIRMS)
    Firm.objects.filter(pk=firm.pk).update(running_cap=cap)
    add("test.other")
    with stopped_at(now):
        sweep()
        # The jobs that the cap already lets run go on.
        assert len(take(100)) == cap
        add()
        for _ in range(50):
            add(firm=other_firm)
    fleet = Fleet(now)
    fleet.work(40)
    # A sweep sees each start a sweep later. If the firms took turns, the other one would get half.
    assert fleet.units[other_firm.pk] >= 26


def test_firms_have_their_own_limits_besides(firm, other_firm, add, now):
    set_rate_limit("test.work", 10, 60, **ALL_FIRMS)
    set_rate_limit("test.work", 2, 60, firm=firm)
    for _ in range(9):
        add()
        add(firm=other_firm)
    fleet = Fleet(now)
    fleet.work(1)
    assert fleet.units == {firm.pk: 2, other_firm.pk: 8}


def test_the_reason_names_the_limit_and_no_other_firm(firm, other_firm, add, now):
    set_rate_limit("test.work", 1, 60, **ALL_FIRMS)
    add(firm=other_firm)
    with stopped_at(now):
        sweep()
        job_id = add()
        (reason,) = [one for one in why_waiting(row(job_id)) if one.code == WaitCode.RATE_LIMITED]
    assert (
        reason.detail
        == "rate limit of test.work of all firms: at most 1 in 1 min; the next one may start in 1 min"
    )
