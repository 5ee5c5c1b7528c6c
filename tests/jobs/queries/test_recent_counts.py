"""The live jobs of a large queue are counted after the answer; those of a small one before it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.db import OperationalError

from jobs.queries import live
from jobs.queries.live import recent_live_jobs
from jobs.queue import pause
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-03")]


@pytest.fixture(autouse=True)
def nothing_kept(transactional_db: None) -> Iterator[None]:
    """Forget other tests' counts, and wait for the last count before the tables are emptied."""
    live._counts.clear()
    yield
    live._counts.clear()
    for thread in threading.enumerate():
        if thread.name == live.THREAD:
            thread.join()


@pytest.fixture
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep counts of two jobs or more, for longer than a test lasts."""
    monkeypatch.setattr(live, "KEPT_FROM", 2)
    monkeypatch.setattr(live, "FRESH_SECONDS", 3600.0)
    monkeypatch.setattr(live, "STALE_SECONDS", 7200.0)


@pytest.fixture
def kept_without_the_third(two_are_many: None, firm: Firm, system_firm: Firm, add) -> None:
    """Let the count of two jobs be kept, and add a third."""
    for key in "ab":
        add("test.work", key)
    assert counted() == 2
    add("test.work", "c")


def counted() -> int:
    with all_firms("test"):
        return recent_live_jobs("firm_id").jobs


def test_a_small_queue_is_counted_each_time(firm: Firm, system_firm: Firm, add) -> None:
    add("test.work", "a")
    assert counted() == 1
    add("test.work", "b")
    assert counted() == 2


@pytest.mark.usefixtures("two_are_many")
def test_a_big_queue_is_answered_with_the_last_count(firm: Firm, system_firm: Firm, add) -> None:
    add("test.work", "a")
    assert counted() == 1  # a count below two is not kept
    add("test.work", "b")
    assert counted() == 2
    add("test.work", "c")
    with all_firms("test"):
        first = recent_live_jobs("firm_id")
        pause(firm=firm, reason="x")
        kept = recent_live_jobs("firm_id")
    assert (kept.jobs, kept.counted_at) == (2, first.counted_at)
    # The limits are read each time.
    assert ([one.reason for one in kept.limits.pauses], kept.limits.now > kept.counted_at) == (
        ["x"],
        True,
    )


@pytest.mark.usefixtures("kept_without_the_third")
def test_the_next_count_is_made_behind_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "FRESH_SECONDS", 0.0)
    assert counted() == 2
    assert wait_until(lambda: counted() == 3, "the count behind the answer")


@pytest.mark.usefixtures("kept_without_the_third")
def test_a_count_that_is_too_old_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STALE_SECONDS", 0.0)
    assert counted() == 3


@pytest.mark.usefixtures("kept_without_the_third")
def test_a_failed_count_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "FRESH_SECONDS", 0.0)
    count, failed = live.live_jobs, []

    def once_broken(*by: live.Group) -> live.LiveJobs:
        if not failed:
            failed.append(True)
            raise OperationalError("the server was away")
        return count(*by)

    monkeypatch.setattr(live, "live_jobs", once_broken)
    assert wait_until(lambda: counted() == 3, "a count after the one that failed")
    assert failed


@pytest.mark.usefixtures("two_are_many")
@pytest.mark.req("T-03")
def test_a_firm_never_sees_what_was_counted_for_all(
    firm: Firm, other_firm: Firm, system_firm: Firm, add
) -> None:
    for one in (firm, other_firm, other_firm):
        add("test.work", "x", firm=one)
    assert counted() == 3
    with firm_scope(firm):
        assert recent_live_jobs().jobs == 1
