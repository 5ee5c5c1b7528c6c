"""Rate limits: a job that was admitted and never starts gives its tokens back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection, transaction

from jobs.engine.admission import sweep
from jobs.engine.clock import stopped_at
from jobs.engine.demotion import demote
from jobs.engine.outcomes import Completed, Failure, Released, Retry
from jobs.engine.prune import expire
from jobs.engine.release import release
from jobs.models import RateBucket
from jobs.queue import cancel, edit, enqueue, pause, resume, set_rate_limit
from jobs.states import CountedBy, OnConflict
from tenants.models import Firm
from tenants.scope import all_firms
from tests.concurrency.test_admission import in_thread
from tests.queue_kit import finish, row, rows, table_rows, take

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-24")]

HOUR = 3600


def canceled(job_id: UUID) -> None:
    cancel(job_id)


def paused(job_id: UUID) -> None:
    pause(limit_key=row(job_id).limit_key, reason="x")
    demote()


def put_off(job_id: UUID) -> None:
    edit(job_id, scheduled_at=row(job_id).scheduled_at + timedelta(minutes=1))


def expired(job_id: UUID) -> None:
    with stopped_at(row(job_id).expires_at + timedelta(seconds=1)):
        assert expire() == 1


def moved_to_another_key(job_id: UUID) -> None:
    edit(job_id, payload={"name": "another"})


def replaced(job_id: UUID) -> None:
    stored = row(job_id)
    firm = Firm.objects.get(pk=stored.firm_id)
    new = enqueue(
        stored.job_type,
        {"name": "another"},
        firm=firm,
        idempotency_key=stored.idempotency_key,
        on_conflict=OnConflict.REPLACE,
    )
    assert new.job_id == job_id


def paused_while_claimed(job_id: UUID) -> None:
    (held,) = take(1)
    pause(limit_key=row(job_id).limit_key, reason="x")
    assert release([held], "paused") == [job_id]


def canceled_while_claimed(job_id: UUID) -> None:
    (held,) = take(1)
    cancel(job_id)
    finish(held, Released("the worker stopped"), ran_seconds=None)
    assert row(job_id).status == "canceled"


@pytest.mark.parametrize(
    "leave",
    [
        *(canceled, paused, put_off, expired, moved_to_another_key, replaced),
        *(paused_while_claimed, canceled_while_claimed),
    ],
    ids=lambda leave: leave.__name__,
)
def test_another_may_start_in_place_of_one_that_leaves(add, now, leave: Callable[[UUID], None]):
    set_rate_limit("test.mailbox", 3, HOUR, counted_by=CountedBy.KEY)
    set_rate_limit("test.mailbox", 3, HOUR)
    in_an_hour = now + timedelta(seconds=HOUR)
    job_id = add("test.mailbox", "a", units=3, idempotency_key="k", expires_at=in_an_hour)
    with stopped_at(now):
        assert sweep() == 1
        assert {one.tokens for one in rows(RateBucket)} == {0}
        leave(job_id)
        assert not row(job_id).admitted or row(job_id).status != "pending"
        assert {(one.tokens, one.granted) for one in rows(RateBucket)} == {(3, 0)}


@pytest.mark.parametrize("counted_by", [CountedBy.FIRM, CountedBy.ALL_FIRMS])
def test_one_with_a_lock_key_that_is_given_back_uses_up_no_token(add, now, counted_by):
    set_rate_limit("test.locked", 1, HOUR, counted_by=counted_by)
    job_id = add("test.locked", "a")
    with stopped_at(now):
        for _ in range(3):
            sweep()
            (held,) = take(1)
            assert release([held], "another worker may start it sooner") == [job_id]
        other = add("test.locked", "b")
        sweep()
        assert {row(one).ready for one in (job_id, other)} == {True, False}


def test_a_pause_that_ends_finds_the_token(add, now):
    set_rate_limit("test.work", 1, HOUR)
    job_id = add()
    with stopped_at(now):
        sweep()
        held = pause(job_type="test.work", reason="x")
        demote()
        resume(held)
        assert sweep() == 1
        assert [one.job_id for one in take(10)] == [job_id]


def test_only_the_tokens_of_those_that_did_not_start_come_back(add, now):
    set_rate_limit("test.work", 2, HOUR)
    started, never, other, last = add(), add(), add(), add()
    with stopped_at(now):
        assert sweep() == 2
        (held,) = take(1)
        assert held.job_id == started
        finish(held, Completed({}))
        cancel(never)
        assert sweep() == 1
        assert [one.job_id for one in take(10)] == [other]
        assert sweep() == 0
        assert row(last).waiting


def test_what_has_started_returns_nothing(add, now):
    set_rate_limit("test.work", 1, HOUR)
    job_id = add()
    add()
    with stopped_at(now):
        sweep()
        (held,) = take(1)
        finish(held, Retry(5, Failure("ValueError", "it broke")))
        cancel(job_id)
        assert sweep() == 0


def test_what_a_cap_alone_admitted_returns_nothing(firm, add, now):
    Firm.objects.filter(pk=firm.pk).update(running_cap=1)
    set_rate_limit("test.other", 1, HOUR)
    job_id = add()
    with stopped_at(now):
        assert sweep() == 1
        cancel(job_id)
        assert rows(RateBucket) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer")
def test_nobody_waits_for_a_bucket_that_an_open_transaction_has_locked(add, now):
    """A worker that gives a job back would otherwise stop until somebody's transaction ends."""
    set_rate_limit("test.locked", 2, HOUR)
    first, second = add("test.locked", "a"), add("test.locked", "b")
    sweep()
    held = next(one for one in take(10) if one.job_id == second)
    with transaction.atomic(), all_firms("test"):
        assert table_rows("SELECT tokens FROM jobs_ratebucket FOR UPDATE") == [(0,)]
        assert in_thread(lambda: release([held], "x")) == [second]
    assert row(first).status == "claimed"
    assert {one.tokens for one in rows(RateBucket)} == {0}
