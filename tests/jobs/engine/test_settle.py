"""Settling: each outcome writes all of it or nothing, and only for the holder of the claim."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.engine import end_attempts
from jobs.engine.claim import claim
from jobs.engine.fair_share import FairShare
from jobs.engine.lease import mark_processing
from jobs.engine.outcomes import (
    Canceled,
    Completed,
    DeadLettered,
    Failure,
    Outcome,
    Released,
    Retry,
    Settlement,
    Snoozed,
)
from jobs.engine.settle import settle
from jobs.states import DeadReason, Status
from tests.queue_kit import (
    FAILURE,
    attempts,
    change,
    counted,
    dead_letters,
    finish,
    later,
    locks,
    minutes,
    new_worker,
    row,
    take,
    take_one,
)

pytestmark = pytest.mark.django_db(transaction=True)

FATAL = DeadLettered(DeadReason.FATAL, FAILURE)
ENDINGS: list[Outcome] = [
    Completed({"n": 1}),
    Retry(60, FAILURE),
    Snoozed(delay_seconds=60),
    Canceled("not wanted"),
    FATAL,
    DeadLettered(DeadReason.FATAL, FAILURE, to_review=False),
    Released("worker stopped"),
]


def kind(outcome: Outcome) -> str:
    return type(outcome).__name__


@pytest.mark.req("J-01", "J-09")
def test_completed(add):
    job_id = add(idempotency_key="key")
    held = take_one()
    with later(100) as now:
        report = finish(held, Completed({"n": 1}), ran_seconds=2.5)
    stored = row(job_id)
    assert report.statuses == {job_id: Status.COMPLETED}
    assert report.stale == []
    assert (stored.status, stored.result, stored.last_error) == ("completed", {"n": 1}, "")
    assert (stored.attempts, stored.ready, stored.waiting) == (1, False, False)
    assert (stored.live_key, stored.idempotency_key) == (None, "key")
    assert stored.completed_at == now
    assert (now - stored.started_at).total_seconds() == pytest.approx(2.5, abs=0.002)
    assert stored.lease_token == -held.lease_token
    assert stored.worker_id == held.worker_id
    assert attempts() == dead_letters() == []


@pytest.mark.req("J-10", "J-13")
def test_retry(add):
    job_id = add(idempotency_key="key")
    held = take_one()
    with later(100) as now:
        assert finish(held, Retry(60, FAILURE)).statuses == {job_id: Status.PENDING}
        stored = row(job_id)
        assert take() == []
    assert (stored.status, stored.attempts, stored.ready) == ("pending", 1, True)
    assert (stored.scheduled_at - now).total_seconds() == pytest.approx(60, abs=0.002)
    assert (stored.last_error, stored.live_key) == ("it broke", "key")
    assert stored.worker_id is stored.completed_at is stored.result is None
    with later(161):
        assert take_one().attempts == 2


@pytest.mark.req("J-11")
@pytest.mark.parametrize("with_until", [True, False])
def test_snoozed(add, with_until):
    job_id = add(idempotency_key="key")
    held = take_one()
    until = datetime(2999, 1, 1, tzinfo=UTC)
    with later(100) as now:
        finish(held, Snoozed(until=until) if with_until else Snoozed(delay_seconds=30))
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.live_key) == ("pending", 0, "key")
    due = until if with_until else now + timedelta(seconds=30)
    assert abs(stored.scheduled_at - due) < timedelta(milliseconds=2)
    assert counted("retried") == 0


@pytest.mark.req("J-11", "W-01")
@pytest.mark.parametrize(
    "outcome",
    [
        Snoozed(until=datetime(1970, 1, 1, tzinfo=UTC)),
        Snoozed(delay_seconds=0),
        Snoozed(delay_seconds=-5),
    ],
    ids=["past", "at once", "negative"],
)
def test_a_snooze_that_is_due_at_once_lasts_a_second(add, outcome):
    job_id = add()
    with later(100) as now:
        finish(take_one(), outcome)
        assert take() == []
    assert abs(row(job_id).scheduled_at - now - timedelta(seconds=1)) < timedelta(milliseconds=2)
    with later(102):
        assert take_one().job_id == job_id


@pytest.mark.req("J-11")
def test_canceled(add):
    job_id = add(idempotency_key="key")
    finish(take_one(), Canceled("not wanted"))
    stored = row(job_id)
    assert (stored.status, stored.last_error, stored.live_key) == ("canceled", "not wanted", None)
    assert (stored.ready, stored.waiting) == (False, False)
    assert stored.completed_at is not None
    assert dead_letters() == []


@pytest.mark.req("J-12", "D-01")
def test_dead_lettered(add):
    job_id = add(idempotency_key="key")
    held = take_one()
    with later(5) as now:
        finish(held, FATAL)
    stored = row(job_id)
    assert (stored.status, stored.last_error, stored.live_key) == ("dlq", "it broke", None)
    assert (stored.attempts, stored.ready) == (1, False)
    (letter,) = dead_letters()
    assert (letter.original_job_id, letter.firm_id) == (job_id, stored.firm_id)
    assert (letter.reason, letter.job_series, letter.resolution) == ("fatal", 1, "")
    assert (letter.error_class, letter.error) == ("ValueError", "it broke")
    assert letter.fingerprint == FAILURE.fingerprint
    assert letter.moved_at == now
    assert letter.reviewed_at is letter.reviewed_by is letter.assigned_to is None


@pytest.mark.req("J-05", "J-12")
def test_a_type_that_opted_out_fails_without_a_dead_letter(add):
    job_id = add()
    finish(take_one(), DeadLettered(DeadReason.EXHAUSTED, FAILURE, to_review=False))
    assert row(job_id).status == "failed"
    assert dead_letters() == []
    assert counted("failed") == 1


@pytest.mark.req("J-11", "W-03")
def test_released(add):
    job_id = add(idempotency_key="key")
    finish(take_one(), Released("worker stopped"), ran_seconds=None)
    stored = row(job_id)
    assert (stored.status, stored.attempts, stored.ready) == ("pending", 0, True)
    assert (stored.live_key, stored.started_at, stored.last_error) == ("key", None, "")
    assert take_one().attempts == 1


@pytest.mark.req("J-13")
@pytest.mark.parametrize(
    ("outcome", "end", "error_class", "message"),
    [
        (Retry(60, FAILURE), "retried", "ValueError", "it broke"),
        (FATAL, "dead_lettered", "ValueError", "it broke"),
        (ENDINGS[5], "failed", "ValueError", "it broke"),
        (Snoozed(delay_seconds=1), "snoozed", "", ""),
        (Snoozed(None, 1, "the shop is closed"), "snoozed", "Snooze", "the shop is closed"),
        (Canceled("no"), "canceled", "Cancel", "no"),
        (Released("worker stopped"), "released", "Released", "worker stopped"),
    ],
    ids=str,
)
def test_an_attempt_that_did_not_complete_is_kept(add, outcome, end, error_class, message):
    job_id = add()
    held = take_one()
    with later(100) as now:
        finish(held, outcome, ran_seconds=4)
    (attempt,) = attempts()
    assert (attempt.job_id, attempt.firm_id) == (job_id, held.firm_id)
    assert (attempt.series, attempt.number, attempt.end) == (1, 1, end)
    assert (attempt.error_class, attempt.message) == (error_class, message)
    assert attempt.worker_id == held.worker_id
    assert attempt.ended_at == now
    assert (now - attempt.started_at).total_seconds() == pytest.approx(4, abs=0.002)
    assert attempt.traceback == (FAILURE.traceback if error_class == "ValueError" else "")


@pytest.mark.req("J-20")
@pytest.mark.parametrize("outcome", ENDINGS, ids=kind)
def test_every_outcome_frees_the_lock_slot(firm, add, outcome):
    job_id = add("test.locked", "key")
    held = take_one()
    assert len(locks()) == 1
    report = finish(held, outcome)
    stored = row(job_id)
    assert locks() == []
    assert report.released_capacity.keys == {(firm.pk, "key")}
    assert (stored.ready, stored.waiting) == (False, stored.status == "pending")


@pytest.mark.req("W-07")
def test_the_counters_of_the_minute(add):
    for _ in range(6):
        add()
    held = take(6)
    outcomes = [Completed({}), Completed({}), Retry(1, FAILURE), FATAL, Canceled("no"), ENDINGS[5]]
    with later(120) as now:
        settle([Settlement(one, end, 0.25) for one, end in zip(held, outcomes, strict=True)])
    (minute,) = minutes()
    assert minute.minute == now.replace(second=0, microsecond=0)
    assert (minute.firm_id, minute.category) == (held[0].firm_id, "sync")
    assert (minute.completed, minute.retried, minute.dlq) == (2, 1, 1)
    assert (minute.canceled, minute.failed, minute.run_ms) == (1, 1, 1_500)


@pytest.mark.req("W-07")
def test_the_counters_add_up_over_batches_firms_and_categories(firm, other_firm, add):
    add(), add(), add("test.other"), add(firm=other_firm)
    with later(60):
        for held in take(10):
            finish(held, Completed({}))
    figures = {(one.firm_id, one.category): one.completed for one in minutes()}
    assert figures == {(firm.pk, "sync"): 2, (firm.pk, "export"): 1, (other_firm.pk, "sync"): 1}


def snapshot() -> tuple[Any, ...]:
    """Return the rows of every table that a settlement may write to."""
    tables = [*attempts(), *dead_letters(), *minutes(), *locks()]
    return tuple((type(one).__name__, one.pk) for one in tables)


@pytest.mark.req("J-09")
@pytest.mark.parametrize("outcome", ENDINGS, ids=kind)
def test_a_late_writer_changes_nothing_and_is_told(add, outcome):
    job_id = add("test.locked", "key")
    late = take_one()
    finish(late, Released("taken away"))
    from jobs.engine.admission import sweep

    sweep()
    current = take_one()
    before, seen = vars(row(job_id)), snapshot()
    report = finish(late, outcome)
    assert [one.lease_token for one in report.stale] == [late.lease_token]
    assert report.locked == []
    assert report.statuses == {}
    assert not report.released_capacity
    after = vars(row(job_id))
    assert {k: v for k, v in after.items() if k != "_state"} == {
        k: v for k, v in before.items() if k != "_state"
    }
    assert snapshot() == seen
    assert finish(current, Completed({})).statuses == {job_id: Status.COMPLETED}


@pytest.mark.req("J-09")
@pytest.mark.parametrize("outcome", ENDINGS, ids=kind)
def test_repeating_ones_own_settlement_is_not_stale_and_counts_once(add, outcome):
    job_id = add()
    held = take_one()
    finish(held, outcome)
    stored, seen = row(job_id), snapshot()
    again = finish(held, outcome)
    assert again.stale == again.locked == []
    assert again.statuses == {}
    assert row(job_id).updated_at == stored.updated_at
    assert snapshot() == seen


@pytest.mark.req("J-09")
@pytest.mark.parametrize("late_last", [True, False])
def test_an_old_and_a_new_claim_of_one_job_in_one_batch(add, late_last):
    job_id = add()
    late = take_one()
    finish(late, Released("taken away"))
    current = take_one()
    batch = [Settlement(current, Completed({"by": "current"}), 1), Settlement(late, FATAL, 1)]
    report = settle(batch if late_last else batch[::-1])
    assert [one.lease_token for one in report.stale] == [late.lease_token]
    stored = row(job_id)
    assert (stored.status, stored.result) == ("completed", {"by": "current"})
    assert dead_letters() == []
    assert counted("completed") == 1


@pytest.mark.req("J-09", "W-03")
def test_the_same_claim_twice_in_one_batch_counts_once(add):
    job_id = add()
    held = take_one()
    report = settle([Settlement(held, Released("stop"), None), Settlement(held, FATAL, 1)])
    assert report.stale == []
    assert row(job_id).status == "pending"
    assert len(attempts()) == 1
    assert dead_letters() == []


@pytest.mark.req("J-16")
@pytest.mark.parametrize(
    ("outcome", "status", "end", "error"),
    [
        (Completed({}), "completed", None, ""),
        (Retry(60, FAILURE), "canceled", "canceled", "it broke"),
        (Snoozed(delay_seconds=1), "canceled", "canceled", "canceled by request"),
        (Released("stop"), "canceled", "canceled", "canceled by request"),
        (FATAL, "dlq", "dead_lettered", "it broke"),
    ],
    ids=str,
)
def test_a_requested_cancel_stops_what_would_go_round_again(add, outcome, status, end, error):
    job_id = add(idempotency_key="key")
    held = take_one()
    change(job_id, cancel_requested_at=datetime.now(UTC))
    finish(held, outcome)
    stored = row(job_id)
    assert (stored.status, stored.last_error) == (status, error)
    assert (stored.ready, stored.live_key) == (False, None)
    assert stored.completed_at is not None
    assert [attempt.end for attempt in attempts()] == ([end] if end else [])


@pytest.mark.req("J-12")
@pytest.mark.parametrize(
    "verb", ["record_attempts", "open_dead_letters", "count", "free_job_locks"]
)
def test_a_break_in_the_middle_leaves_nothing_behind(monkeypatch, add, verb):
    job_id = add("test.locked", "key")
    held = take_one()

    class Torn(Exception):
        pass

    written = getattr(end_attempts, verb)

    def tear(*args: Any) -> None:
        written(*args)
        raise Torn

    with monkeypatch.context() as patch:
        patch.setattr(end_attempts, verb, tear)
        with pytest.raises(Torn):
            finish(held, FATAL)
    assert row(job_id).status == "claimed"
    assert attempts() == dead_letters() == minutes() == []
    assert len(locks()) == 1
    assert finish(held, FATAL).statuses == {job_id: Status.DLQ}
    assert len(dead_letters()) == len(attempts()) == counted("dlq") == 1


@pytest.mark.req("J-12", "W-04")
def test_one_bad_row_is_settled_alone_and_its_neighbours_as_they_ended(add):
    ids = [add() for _ in range(3)]
    held = take(3)
    # No database can store a time that far ahead.
    bad = Snoozed(delay_seconds=1e15)
    report = settle(
        [
            Settlement(held[0], Completed({}), 1),
            Settlement(held[1], bad, 1),
            Settlement(held[2], Completed({}), 1),
        ]
    )
    assert report.statuses == {
        ids[0]: Status.COMPLETED, ids[1]: Status.DLQ, ids[2]: Status.COMPLETED,
    }  # fmt: skip
    (letter,) = dead_letters()
    assert letter.original_job_id == ids[1]
    assert letter.reason == "fatal"
    assert "database refused" in letter.error


@pytest.mark.req("J-05", "J-12")
def test_a_bad_row_of_a_type_without_dead_letters_fails(add):
    job_id = add("test.shrug")
    finish(take_one(), Snoozed(delay_seconds=1e15))
    assert (row(job_id).status, dead_letters()) == (Status.FAILED, [])


@pytest.mark.req("J-01", "J-14")
def test_processing_is_marked_only_by_the_holder(add):
    job_id = add()
    late = take_one()
    finish(late, Released("taken away"))
    current = take_one()
    mark_processing([late])
    assert row(job_id).status == "claimed"
    with later(3) as now:
        mark_processing([current])
    stored = row(job_id)
    assert (stored.status, stored.started_at) == ("processing", now)
    with later(60) as end:
        finish(current, Completed({}), ran_seconds=50)
    assert row(job_id).started_at == end - timedelta(seconds=50)


@pytest.mark.req("J-09")
@pytest.mark.parametrize("outcome", [Completed({}), FATAL])
def test_a_start_has_the_time_at_which_the_handler_began_not_that_of_the_write(add, outcome):
    job_id = add()
    held = take_one()
    with later(60) as now:
        asked = time.monotonic()
        settle([Settlement(held, outcome, 2.0, asked - 5)])
        took = time.monotonic() - asked
    ago = (now - row(job_id).started_at).total_seconds()
    # SQLite stores times in milliseconds.
    assert 7 - 0.001 <= ago <= 7 + took + 0.001


@pytest.mark.req("J-11")
def test_what_is_given_back_has_not_started(add):
    job_id = add()
    (held,) = claim(new_worker(), 1, FairShare(), starts=True)
    assert row(job_id).started_at is not None
    finish(held, Released("unknown type"), None)
    assert (row(job_id).status, row(job_id).started_at) == ("pending", None)


@pytest.mark.req("J-09")
def test_settling_nothing_is_nothing():
    assert settle([]).statuses == {}


@pytest.mark.req("J-12")
def test_text_the_database_cannot_hold_never_reaches_it(add):
    job_id = add()
    finish(take_one(), Retry(1, Failure("E", "a" * 2_000)))
    assert row(job_id).last_error == "a" * 2_000
