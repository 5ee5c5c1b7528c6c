"""Operators close circuit breakers, and open them by hand."""

from __future__ import annotations

import pytest

from jobs.errors import LimitInvalid, ReasonMissing, UnknownJob, WrongState
from jobs.operations.breakers import close_breaker, open_breaker
from tenants.errors import TenantMismatch
from tenants.models import AuditEntry
from tenants.scope import all_firms, firm_scope
from tests.jobs.breakers.kit import FAILS, WORKS, attempt, breaker, chores, trip
from tests.queue_kit import finish, later, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-07")]


def audited():
    with all_firms("test"):
        return list(AuditEntry.objects.order_by("id").values_list("act", "reason", "before__state"))


def test_closing_lets_all_run_at_once_and_counts_anew(firm, add):
    add(6)
    trip()
    chores()
    with firm_scope(firm):
        close_breaker(breaker(), "Gmail is back")
    assert (breaker().state, breaker().trips, breaker().failures) == ("closed", 0, {})
    chores()
    attempt([FAILS] * 3)
    assert breaker().state == "closed"
    assert audited() == [("breaker.close", "Gmail is back", "open")]


def test_opening_by_hand_holds_back_and_then_tries_one(firm, add):
    add(3)
    with firm_scope(firm):
        open_breaker("frail", firm, "the mailbox is being moved")
    assert take() == []
    chores()
    with later(31):
        chores()
        (probe,) = take()
        finish(probe, WORKS)
        chores()
        assert len(take()) == 2
    assert audited() == [("breaker.open", "the mailbox is being moved", "closed")]


def test_a_probe_is_not_stopped_by_closing(add):
    add(5)
    trip()
    with later(31):
        chores()
        (probe,) = take()
        close_breaker(breaker().pk, "it works")
        finish(probe, FAILS)
        assert (breaker().state, breaker().attempts) == ("closed", 1)


@pytest.mark.parametrize("reason", ["", "  "])
def test_both_need_a_reason(firm, add, reason):
    add(4)
    trip()
    with pytest.raises(ReasonMissing):
        close_breaker(breaker(), reason)
    with pytest.raises(ReasonMissing):
        open_breaker("frail.too", firm, reason)
    assert breaker().state == "open"
    assert audited() == []


def test_neither_is_done_twice(firm, add):
    add(4)
    trip()
    with pytest.raises(WrongState):
        open_breaker("frail", firm, "again")
    close_breaker(breaker(), "enough")
    with pytest.raises(WrongState):
        close_breaker(breaker(), "again")
    assert [act for act, _, _ in audited()] == ["breaker.close"]


@pytest.mark.parametrize("job_type", ["sturdy", "nothing"])
def test_only_types_with_a_breaker_have_one_to_open(firm, job_type):
    with pytest.raises(LimitInvalid):
        open_breaker(job_type, firm, "because")


@pytest.mark.req("T-05")
def test_another_firms_breaker_is_out_of_sight(firm, other_firm, add):
    add(4)
    trip()
    with firm_scope(other_firm):
        with pytest.raises(UnknownJob):
            close_breaker(breaker().pk, "not mine")
        with pytest.raises(TenantMismatch):
            open_breaker("frail.too", firm, "not mine")
    assert breaker().state == "open"
