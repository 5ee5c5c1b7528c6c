"""Circuit breakers by limit key: failures of one mailbox hold back only that mailbox's jobs."""

from __future__ import annotations

import pytest

from jobs.engine.breakers import IDLE_SECONDS
from jobs.errors import LimitInvalid, WrongState
from jobs.models import CircuitBreaker
from jobs.operations.breakers import close_breaker, open_breaker
from jobs.queries.why_waiting import WaitCode
from jobs.queue import why_waiting
from tests.jobs.breakers.kit import FAILS, WORKS, attempt, breaker, chores, trip
from tests.queue_kit import later, row, rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-07", "J-24")]

MAILBOX = "frail.mailbox"


def states() -> dict[str, str]:
    """Return the state of each key's breaker."""
    return {one.limit_key: one.state for one in rows(CircuitBreaker)}


def test_a_key_that_keeps_failing_stops_itself_alone(firm, add):
    add(4, job_type=MAILBOX, name="anna")
    trip()
    assert states() == {"anna": "open"}
    held, *_ = add(2, job_type=MAILBOX, name="anna")
    others = [*add(2, job_type=MAILBOX, name="ben"), *add(1, job_type=MAILBOX)]
    chores()
    assert {one.job_id for one in take()} == set(others)
    (reason,) = [one for one in why_waiting(row(held)) if one.code == WaitCode.BREAKER]
    assert f"breaker of {MAILBOX} for firm {firm.slug} with the limit key anna" in reason.detail
    assert row(held).attempts == 0


def test_failures_of_several_keys_do_not_add_up(add):
    for name in ("anna", "ben"):
        add(2, job_type=MAILBOX, name=name)
    attempt([FAILS] * 4)
    assert states() == {"anna": "closed", "ben": "closed"}


def test_its_probe_is_one_of_its_own_jobs(add):
    add(4, job_type=MAILBOX, name="anna")
    trip()
    with later(31):
        chores()
        (probe,) = attempt([WORKS])
        assert probe.limit_key == "anna"
        assert states() == {"anna": "closed"}
        chores()
        assert len(take()) == 3


def test_one_key_is_probed_though_another_has_more_urgent_jobs(add):
    add(4, job_type=MAILBOX, name="anna")
    trip()
    add(4, job_type=MAILBOX, name="ben", priority=0)
    trip()
    with later(31):
        chores()
        # Each claim takes jobs of one priority, so it takes two to get both probes.
        assert [one.limit_key for one in (*take(), *take())] == ["ben", "anna"]


def test_one_of_a_key_opens_and_closes_by_hand(firm, add):
    opened = open_breaker(MAILBOX, firm, "an outage", limit_key="anna")
    assert (opened.limit_key, opened.state) == ("anna", "open")
    with pytest.raises(WrongState, match="mailbox anna is open"):
        open_breaker(MAILBOX, firm, "again", limit_key="anna")
    open_breaker(MAILBOX, firm, "those without a key")
    mine, other = add(1, job_type=MAILBOX, name="anna"), add(1, job_type=MAILBOX, name="ben")
    assert [one.job_id for one in take()] == other
    close_breaker(opened, "over")
    assert states() == {"anna": "closed", "": "open"}
    chores()
    assert [one.job_id for one in take()] == mine


def test_an_impossible_key_is_refused(firm):
    with pytest.raises(LimitInvalid) as refusal:
        open_breaker(MAILBOX, firm, "x", limit_key="x" * 201)
    assert [fault["field"] for fault in refusal.value.errors] == ["limit_key"]


def test_an_open_one_without_jobs_is_dropped_after_a_day(firm):
    open_breaker(MAILBOX, firm, "the mailbox is gone", limit_key="anna")
    with later(IDLE_SECONDS):
        chores()
        assert breaker().state == "open"
    with later(IDLE_SECONDS + 31):
        chores()
        assert rows(CircuitBreaker) == []
