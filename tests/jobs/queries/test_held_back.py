"""Jobs that are due and held back are counted and filtered alike, without those of other firms."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.admission import sweep
from jobs.engine.clock import database_now
from jobs.engine.demotion import demote
from jobs.errors import WrongState
from jobs.models import CircuitBreaker, JobQueue, Pause
from jobs.operations.breakers import open_breaker
from jobs.queries.filters import filter_jobs
from jobs.queries.held_back import ANYTHING, HELD_BACK, limits_in_force
from jobs.queries.live import live_jobs
from jobs.queries.stats import count_jobs, queue_stats
from jobs.queries.why_waiting import WaitCode, why_waiting
from jobs.queue import pause, set_rate_limit
from jobs.states import CountedBy, Status
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.queue_kit import row, take
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-25", "O-01", "O-03")]

TYPES = ("test.work", "test.other", "test.locked", "test.mailbox", "test.heavy")


def held(firm: Firm | None = None) -> dict[str, int]:
    """Return how many jobs of a firm, or of all, each reason holds back."""
    with firm_scope(firm) if firm else all_firms("test"):
        counts = queue_stats().totals.held_back
    return {code.value: jobs for code, jobs in counts.items() if jobs}


def found(code: str) -> set[Any]:
    with all_firms("test"):
        return set(filter_jobs(JobQueue.objects.all(), held_back=code).values_list("pk", flat=True))


def settle_limits() -> None:
    """Do what workers do to make limits take effect."""
    demote()
    sweep()


@pytest.mark.req("T-04")
def test_each_limit_names_itself(firm: Firm, other_firm: Firm, system_firm: Firm, add) -> None:
    capped, inactive, rated = (
        Firm.objects.create(name=slug, slug=slug) for slug in ("capped", "inactive", "rated")
    )
    ids = {
        "paused": {add(firm=other_firm) for _ in range(3)},
        "breaker": {add("test.other") for _ in range(2)},
        "locked": [add("test.locked", "key") for _ in range(4)][1:],
        "capped": [add(firm=capped) for _ in range(3)][2:],
        "firm_inactive": {add(firm=inactive)},
        "rate_limited": [add("test.locked", f"key {n}", firm=rated) for n in range(5)][1:],
    }
    free = add()
    add(delay=3600)
    pause(firm=other_firm, reason="they did not pay")
    open_breaker("test.other", firm, reason="down")
    set_rate_limit("test.locked", 1, 3600, firm=rated)
    Firm.objects.filter(pk=capped.pk).update(running_cap=2)
    Firm.objects.filter(pk=inactive.pk).update(active=False)
    settle_limits()

    assert held() == {code: len(jobs) for code, jobs in ids.items()}
    assert {code: found(code) for code in ids} == {code: set(jobs) for code, jobs in ids.items()}
    assert found(ANYTHING) == {job_id for jobs in ids.values() for job_id in jobs}
    assert held(firm) == {"breaker": 2, "locked": 3}
    with all_firms("test"):
        totals = queue_stats().totals
        jobs = {job.pk: job for job in JobQueue.objects.select_related("firm")}
    assert totals.scheduled == 1
    # These are a job that holds its lock, two within the cap, one that had a token, and the free
    # one.
    assert totals.runnable == 5
    limits = in_force()
    assert limits.reason_of(jobs[free]) is None
    for code, members in ids.items():
        for job_id in members:
            assert limits.reason_of(jobs[job_id]) == code
            with all_firms("test"):
                assert code in [reason.code for reason in why_waiting(jobs[job_id])]


def in_force():
    with all_firms("test"):
        return limits_in_force()


def test_a_pause_counts_before_any_worker_has_acted_on_it(firm: Firm, add) -> None:
    for _ in range(4):
        add()
    pause(firm=firm, reason="stop")
    assert held(firm) == {"paused": 4}
    with firm_scope(firm):
        assert queue_stats().totals.runnable == 0


@pytest.mark.req("J-24")
def test_rates_of_keys_and_of_all_firms_hold_back(
    firm: Firm, other_firm: Firm, system_firm: Firm, add
) -> None:
    set_rate_limit(None, 1, 3600, counted_by=CountedBy.KEY)
    set_rate_limit("test.other", 1, 3600, counted_by=CountedBy.ALL_FIRMS)
    keyed = [add("test.mailbox", key) for key in ("anna", "anna", "ben")] + [add()]
    shared = [add("test.other", firm=one) for one in (firm, other_firm, firm)]
    settle_limits()
    ready = {pk for pk in (*keyed, *shared) if row(pk).ready}
    assert ready & set(keyed) == {keyed[0], keyed[2], keyed[3]}
    assert found("rate_limited") == {*keyed, *shared} - ready
    assert sum(held(one).get("rate_limited", 0) for one in (firm, other_firm)) == 3


def test_what_was_admitted_is_held_back_by_a_pause_and_by_no_rate(firm: Firm, add) -> None:
    set_rate_limit("test.work", 2, 3600)
    for _ in range(3):
        add()
    sweep()
    assert held(firm) == {"rate_limited": 1}
    pause(firm=firm, reason="stop")
    assert held(firm) == {"paused": 3}


def test_jobs_that_cost_more_than_their_bucket_has_are_held_back(firm: Firm, add) -> None:
    set_rate_limit("test.heavy", 5, 3600)
    heavy = [add("test.heavy", "x" * units) for units in (3, 3, 4, 9)]
    sweep()
    assert [row(pk).ready for pk in heavy] == [True, False, False, False]
    assert held(firm) == {"rate_limited": 3}
    assert found("rate_limited") == {*heavy[1:]}
    # The two tokens left are saved for the first heavy job, so a lighter one does not get them.
    light = add("test.heavy", "xx")
    sweep()
    assert held(firm) == {"rate_limited": 4}
    assert found("rate_limited") == {*heavy[1:], light}
    with all_firms("test"):
        waits = [in_force().reason_of(job) for job in JobQueue.objects.order_by("pk")]
    assert waits == [None, *[WaitCode.RATE_LIMITED] * 4]


def test_a_bucket_saves_up_for_no_job_that_may_not_start(firm: Firm, add) -> None:
    set_rate_limit("test.heavy", 5, 3600)
    add("test.heavy", "xx")
    locked = [add("test.heavy", "x", lock_key="key") for _ in range(2)]
    sweep()
    # The bucket has two tokens left.
    add("test.heavy", "xxx", limit_key="ada")
    assert held(firm) == {"rate_limited": 2}
    pause(firm=firm, limit_key="ada", reason="x")
    assert held(firm) == {"paused": 1, "locked": 1}
    assert found("locked") == {locked[1]}


def test_waiting_jobs_are_read_only_where_a_rate_counts_units(firm: Firm, add) -> None:
    def queries() -> int:
        with all_firms("test"), CaptureQueriesContext(connection) as asked:
            limits_in_force()
        return len(asked)

    for kind in ("test.work", "test.heavy"):
        set_rate_limit(kind, 5, 3600)
    add("test.work")
    sweep()
    alike = queries()
    add("test.heavy", "xx")
    sweep()
    assert queries() == alike + 1


def test_a_pause_that_is_over_holds_nothing_back(firm: Firm, add) -> None:
    add()
    pause(firm=firm, reason="stop", until=database_now() + timedelta(hours=1))
    with all_firms("test"):
        Pause.objects.update(until=database_now() - timedelta(seconds=1))
    assert held(firm) == {}


@pytest.mark.req("T-03")
def test_a_member_counts_pauses_of_every_firm_and_none_of_another(
    firm: Firm, other_firm: Firm, system_firm: Firm, add
) -> None:
    add()
    add("test.other")
    pause(firm=other_firm, reason="theirs")
    pause(category="export", reason="everywhere")
    assert held(firm) == {"paused": 1}
    with firm_scope(firm):
        (seen,) = live_jobs().limits.pauses
    assert seen.reason == "everywhere"


def test_the_oldest_wait_leaves_out_what_is_held_back_on_purpose(firm: Firm, add) -> None:
    hour_ago = database_now() - timedelta(hours=1)
    add("test.other", at=hour_ago)
    add("test.locked", "key", at=hour_ago + timedelta(minutes=20))
    add("test.locked", "key", at=hour_ago + timedelta(minutes=30))
    take()
    pause(firm=firm, category="export", reason="on purpose")
    with firm_scope(firm):
        totals = queue_stats().totals
    # Only the second job of the lock counts, because nobody holds it back on purpose.
    assert totals.held_back[WaitCode.LOCKED] == 1
    assert 1790 <= (totals.oldest_wait_seconds or 0) < 1900
    pause(firm=firm, reason="all of it")
    with firm_scope(firm):
        assert queue_stats().totals.oldest_wait_seconds is None


@pytest.mark.req("O-07")
def test_a_breakers_probe_is_not_held_back(firm: Firm, add) -> None:
    first, second = add(), add()
    open_breaker("test.work", firm, reason="down")
    with all_firms("test"):
        CircuitBreaker.objects.update(state="half_open", probe_job_id=first)
        jobs = {job.pk: job for job in JobQueue.objects.all()}
    limits = in_force()
    assert limits.reason_of(jobs[first]) is None
    assert limits.reason_of(jobs[second]) is WaitCode.BREAKER
    assert found("breaker") == {second}


@pytest.mark.req("J-24")
def test_a_limit_key_tells_jobs_of_a_type_apart(firm: Firm, add) -> None:
    jobs = {name: add("test.mailbox", name) for name in ("ada", "bob", "cleo")}
    pause(firm=firm, limit_key="ada", reason="x")
    open_breaker("test.mailbox", firm, limit_key="bob", reason="x")
    assert held(firm) == {"paused": 1, "breaker": 1}
    assert (found("paused"), found("breaker")) == ({jobs["ada"]}, {jobs["bob"]})


def test_counts_filters_and_single_jobs_agree_under_any_limits(
    firm: Firm, other_firm: Firm, system_firm: Firm, add
) -> None:
    rng = Random(7)
    firms = [firm, other_firm, Firm.objects.create(name="Third", slug="third")]
    for number in range(60):
        kind = rng.choice(TYPES)
        add(kind, f"key {number % 3}", firm=rng.choice(firms), delay=rng.choice((0, 0, 600)))
    for _ in range(12):
        _change_limits(rng, firms)
        if rng.random() < 0.5:
            settle_limits()
        with all_firms("test"):
            live = live_jobs("firm_id")
            limits = live.limits
            pending = list(JobQueue.objects.filter(status=Status.PENDING))
            counts = [count_jobs("category", live), count_jobs("firm_id", live)]
        due = [job for job in pending if job.scheduled_at <= limits.now]
        for code in HELD_BACK:
            of_code = {job.pk for job in due if limits.reason_of(job) == code}
            assert found(code) == of_code
            for by in counts:
                assert sum(one.held_back[code] for one in by.values()) == len(of_code)
        for by in counts:
            assert sum(one.statuses[Status.PENDING] for one in by.values()) == len(pending)


def _change_limits(rng: Random, firms: list[Firm]) -> None:
    with all_firms("test"):
        Pause.objects.all().delete()
    for one in firms:
        cap = rng.choice((None, 0, 2))
        Firm.objects.filter(pk=one.pk).update(active=rng.random() < 0.8, running_cap=cap)
    for _ in range(rng.randrange(3)):
        pause(
            firm=rng.choice((*firms, None)),
            category=rng.choice((None, "sync")),
            job_type=rng.choice((None, *TYPES)),
            limit_key=rng.choice((None, None, "key 1")),
            reason="x",
        )
    if rng.random() < 0.5:
        set_rate_limit(rng.choice(TYPES), rng.choice((1, 4)), 3600, firm=rng.choice((*firms, None)))
    if rng.random() < 0.5:
        job_type, one = rng.choice((None, *TYPES)), rng.choice((*firms, None))
        set_rate_limit(job_type, rng.choice((1, 4)), 3600, firm=one, counted_by=CountedBy.KEY)
    if rng.random() < 0.3:
        amount = rng.choice((1, 4))
        set_rate_limit(rng.choice(TYPES), amount, 3600, counted_by=CountedBy.ALL_FIRMS)
    if rng.random() < 0.3:
        with suppress(WrongState):  # it is open already
            open_breaker(rng.choice(TYPES), rng.choice(firms), reason="x")


def test_the_number_of_queries_does_not_depend_on_jobs_or_limits(
    firm: Firm, other_firm: Firm, system_firm: Firm, add
) -> None:
    def queries() -> int:
        with all_firms("test"), CaptureQueriesContext(connection) as asked:
            queue_stats(live_jobs())
        return len(asked)

    set_rate_limit("test.work", 1, 60)
    few = queries()
    for one in (firm, other_firm):
        for kind in TYPES:
            add(kind, "key", firm=one)
            pause(firm=one, job_type=kind, reason="x")
            open_breaker(kind, one, reason="x")
            set_rate_limit(kind, 1, 60, firm=one)
    assert queries() == few


@postgresql_only
def test_firms_and_categories_are_counted_apart_where_no_limit_is_about_them(
    firm: Firm, other_firm: Firm, system_firm: Firm, add
) -> None:
    for one in (firm, other_firm):
        for kind in TYPES:
            add(kind, "x", firm=one)
    with all_firms("test"):
        apart = live_jobs("firm_id").groups
        pause(firm=firm, reason="x")
        together = live_jobs("firm_id").groups
    assert all((group.category is None) != (group.firm_id is None) for group in apart)
    assert all(group.category and group.firm_id for group in together)
    assert sum(group.jobs for group in apart) == 2 * sum(group.jobs for group in together)
