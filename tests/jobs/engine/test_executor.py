"""Running one claim returns one outcome, whatever the handler does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone, translation
from django.utils.translation import get_language

from interfaces.correlation import current_correlation_id
from jobs.conf import unknown_type_grace_seconds
from jobs.engine.claim import Claim
from jobs.engine.clock import stopped_at
from jobs.engine.current_job import current_job
from jobs.engine.outcomes import Canceled, Completed, DeadLettered, Released, Retry, Snoozed
from jobs.errors import Cancel, Fatal, JobTimeout, LeaseLost, Retryable, Snooze
from jobs.models import JobQueue
from jobs.queue import cancel, enqueue
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.states import DeadReason
from tests.queue_kit import (
    attempts,
    change,
    dead_letters,
    finish,
    later,
    perform,
    row,
    rows,
    take,
    take_one,
    work_off,
)
from tests.support.nesting import nested

pytestmark = pytest.mark.django_db(transaction=True)

MOMENT = datetime(2999, 1, 1, tzinfo=UTC)


class NamePayload(JobPayload):
    name: str = ""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.fixture
def run(firm, job_types):
    """Return a function that runs one job with a given handler, and returns the outcome."""

    def run_one(handler: Any, *, max_attempts: int = 3, **options: Any) -> Any:
        retry = RetryPolicy(max_attempts=max_attempts, base_delay_seconds=60, jitter=0)
        job("test.run", category="sync", payload=NamePayload, retry=retry, **options)(handler)
        enqueue("test.run", {"name": "Ada"}, firm=firm)
        return perform(take_one())

    return run_one


def only_id() -> UUID:
    (job,) = rows(JobQueue)
    return UUID(str(job.pk))


def take_again() -> Claim:
    """Claim the only job once more; its earlier attempts still count."""
    change(only_id(), status="pending")
    return take_one()


def raising(error: BaseException) -> Any:
    def handle(payload: NamePayload, ctx: Any) -> None:
        raise error

    return handle


def returning(result: Any) -> Any:
    def handle(payload: NamePayload, ctx: Any) -> Any:
        return result

    return handle


@pytest.mark.req("J-05")
@pytest.mark.parametrize(
    ("result", "stored"), [(None, {}), ({"n": 1}, {"n": 1}), ({}, {}), ([1], [1]), (0, 0)]
)
def test_what_the_handler_returns_is_the_result(run, result, stored):
    assert run(returning(result)) == Completed(stored)


def test_a_coroutine_that_nobody_awaits_is_said_to_be_one(run):
    async def handle(payload: NamePayload, ctx: Any) -> None:
        raise AssertionError("it runs")

    def decorated(*arguments: Any) -> Any:
        return handle(*arguments)

    outcome = run(decorated)
    assert (outcome.reason, outcome.failure.error_class) == (DeadReason.FATAL, "jobs.errors.Fatal")
    assert "the handler returned a coroutine" in outcome.failure.message


@pytest.mark.req("J-03", "J-18")
def test_the_handler_gets_its_payload_and_context(run):
    seen: dict[str, Any] = {}

    def handle(payload: NamePayload, ctx: Any) -> None:
        seen.update(payload=payload, ctx=ctx, job=current_job(), corr=current_correlation_id())

    run(handle)
    assert seen["payload"].name == "Ada"
    assert seen["ctx"].job_id == seen["job"].job_id
    assert seen["payload"].correlation_id == seen["ctx"].correlation_id == seen["corr"]
    assert current_job() is current_correlation_id() is None


@pytest.mark.req("J-10", "J-11")
@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (ValueError("broken"), 60),
        (Retryable("busy"), 60),
        (Retryable("busy", retry_after=7), 7),
        (Retryable("busy", retry_after=0), 0),
        (Retryable("busy", retry_after=-3), 0),
        (Retryable("busy", retry_after=99_999), 99_999),
        (SystemExit(3), 60),
        (KeyboardInterrupt(), 60),
        (MemoryError(), 60),
        (RecursionError(), 60),
        (Unspeakable(), 60),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_errors_that_may_pass_are_tried_again(run, error, delay):
    outcome = run(raising(error))
    assert isinstance(outcome, Retry)
    assert outcome.delay_seconds == delay
    assert outcome.failure.error_class.endswith(type(error).__name__)


@pytest.mark.req("J-11", "J-13")
@pytest.mark.parametrize("said", ["", "the shop is closed"])
def test_what_makes_a_snooze_unusable_is_in_the_message_of_the_failure(run, said):
    error = Snooze(said, seconds=1)
    error.seconds, error.until = None, datetime(1, 1, 1, tzinfo=UTC)
    outcome = run(raising(error), max_attempts=1)
    assert isinstance(outcome, DeadLettered)
    assert outcome.failure.message.startswith(said or "The handler's request")
    assert (
        "The handler's request to the queue cannot be read: Snooze(until=)"
        in outcome.failure.message
    )


@pytest.mark.req("J-14")
def test_a_handler_past_its_timeout_is_tried_again(run):
    outcome = run(raising(JobTimeout()), timeout_seconds=90)
    assert isinstance(outcome, Retry)
    assert outcome.failure.message == "timed out after 90 seconds"


@pytest.mark.req("J-14", "J-19")
def test_a_timeout_in_a_transaction_is_tried_again_as_any_other(run):
    def handle(payload: NamePayload, ctx: Any) -> None:
        with ctx.transaction():
            ctx._signals.timed_out = True

    outcome = run(handle, timeout_seconds=90)
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == "jobs.errors.JobTimeout"
    assert outcome.failure.message == "timed out after 90 seconds"


@pytest.mark.req("J-10")
def test_each_retry_waits_longer(run):
    outcomes = [run(raising(ValueError("broken")), max_attempts=5)]
    outcomes += [perform(take_again()) for _ in range(3)]
    assert [outcome.delay_seconds for outcome in outcomes] == [60, 120, 240, 480]


@pytest.mark.req("J-12")
@pytest.mark.parametrize(
    "error", [ValueError("broken"), Retryable("busy"), SystemExit(1)], ids=repr
)
def test_the_last_attempt_exhausts_the_job(run, error):
    outcome = run(raising(error), max_attempts=1)
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason is DeadReason.EXHAUSTED
    assert outcome.to_review


@pytest.mark.req("J-11", "J-12")
def test_a_fatal_error_ends_the_job_at_its_first_attempt(run):
    outcome = run(raising(Fatal("no such mailbox")))
    assert isinstance(outcome, DeadLettered)
    assert (outcome.reason, outcome.failure.message) == (DeadReason.FATAL, "no such mailbox")


@pytest.mark.req("J-11")
@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Snooze(seconds=9), Snoozed(delay_seconds=9)),
        (Snooze(until=MOMENT), Snoozed(until=MOMENT)),
        (Snooze("password=hunter2", seconds=9), Snoozed(None, 9, "[redacted]")),
        (Cancel("not wanted"), Canceled("not wanted")),
        (Cancel(""), Canceled("canceled by its handler")),
    ],
    ids=repr,
)
def test_what_a_handler_asks_for(run, error, outcome):
    assert run(raising(error)) == outcome


@pytest.mark.req("J-11")
@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ([Snooze(seconds=9)], Snoozed(delay_seconds=9)),
        ([ExceptionGroup("inner", [Snooze(seconds=9)])], Snoozed(delay_seconds=9)),
        ([Retryable("busy"), Snooze(seconds=9), Cancel("no")], Canceled("no")),
    ],
    ids=repr,
)
def test_what_a_handler_asks_for_in_a_group_of_errors(run, errors, outcome):
    assert run(raising(ExceptionGroup("tasks", errors))) == outcome


def taken_back(ctx: Any) -> None:
    change(ctx.job_id, lease_token=ctx.fence + 1)


def worker_lost_its_lease(ctx: Any) -> None:
    ctx._signals.lease_lost.set()


def canceled_meanwhile(ctx: Any) -> None:
    # The worker has not told the handler of the cancel yet.
    cancel(ctx.job_id)


@pytest.mark.req("J-09", "J-11")
@pytest.mark.parametrize("lose", [taken_back, worker_lost_its_lease, canceled_meanwhile])
@pytest.mark.parametrize(
    "beside", [[], [ValueError("broken"), Fatal("no")]], ids=["alone", "group"]
)
def test_a_lost_lease_decides_whatever_else_the_handler_raised(run, lose, beside):
    def handle(payload: NamePayload, ctx: Any) -> None:
        lose(ctx)
        try:
            with ctx.transaction():
                pass
        except LeaseLost as error:
            if beside:
                raise ExceptionGroup("tasks", [*beside, error]) from error
            raise

    assert run(handle, max_attempts=1) == Released("lease lost")


@pytest.mark.req("J-11", "J-12")
def test_a_handler_that_raises_leaselost_while_its_lease_stands_has_failed(run):
    outcome = run(raising(LeaseLost("the door is locked")))
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == "jobs.errors.LeaseLost"
    assert outcome.failure.message.startswith(
        "the door is locked\nThe handler itself raised LeaseLost"
    )
    finish(take_again(), outcome)
    assert row(only_id()).attempts == 2


@pytest.mark.req("J-11", "J-12")
def test_a_false_leaselost_at_the_last_attempt_exhausts_the_job(run):
    outcome = run(raising(LeaseLost("the door is locked")), max_attempts=1)
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason is DeadReason.EXHAUSTED


# A LeaseLost raised while the lease stands is an ordinary failure, as any other error is.
BESIDE = pytest.mark.parametrize("beside", [ValueError("broken"), LeaseLost("locked")], ids=repr)


@BESIDE
@pytest.mark.req("J-11")
def test_a_fatal_error_in_a_group_ends_the_job_whatever_is_beside_it(run, beside):
    outcome = run(raising(ExceptionGroup("tasks", [beside, Fatal("no order")])))
    assert isinstance(outcome, DeadLettered)
    assert (outcome.reason, outcome.failure.message) == (DeadReason.FATAL, "no order")


@BESIDE
@pytest.mark.req("J-11")
def test_other_errors_in_a_group_fail_the_attempt_whatever_is_asked_beside_them(run, beside):
    outcome = run(raising(ExceptionGroup("tasks", [beside, Snooze(seconds=9)])))
    assert isinstance(outcome, Retry)
    assert outcome.failure.error_class == "ExceptionGroup"


@pytest.mark.req("J-11")
def test_a_group_asks_for_its_own_delay(run):
    outcome = run(raising(ExceptionGroup("tasks", [Retryable("busy", retry_after=7)])))
    assert isinstance(outcome, Retry)
    assert (outcome.delay_seconds, outcome.failure.message) == (7, "busy")


@pytest.mark.req("W-04")
@pytest.mark.parametrize("how", ["def", "async def"])
def test_language_and_time_zone_of_a_handler_end_with_it(run, how):
    seen: list[tuple[str, str]] = []

    def look(payload: NamePayload, ctx: Any) -> None:
        seen.append((get_language(), timezone.get_current_timezone_name()))
        translation.activate("de")
        timezone.activate("Asia/Tokyo")

    async def look_async(payload: NamePayload, ctx: Any) -> None:
        look(payload, ctx)

    run(look if how == "def" else look_async)
    perform(take_again())

    assert seen == [(get_language(), timezone.get_current_timezone_name())] * 2


@pytest.mark.req("J-05", "J-12")
@pytest.mark.parametrize("error", [Fatal("no"), ValueError("broken")], ids=repr)
def test_a_type_may_opt_out_of_dead_letters(run, error):
    outcome = run(raising(error), max_attempts=1, dead_letter=False)
    assert isinstance(outcome, DeadLettered)
    assert not outcome.to_review


@pytest.mark.req("J-05", "J-12")
@pytest.mark.parametrize(
    ("result", "why"),
    [
        (object(), "is not plain JSON"),
        ({1}, "is not plain JSON: $: set is not JSON"),
        ({"sent": [b"x"]}, "is not plain JSON: $.sent[0]: bytes is not JSON"),
        ({"a": {1: 2}}, "has a key that is no string at $.a"),
        (float("nan"), "is not plain JSON"),
        ({"a": "\ud800"}, "is not plain JSON"),
        (b"x", "is not plain JSON"),
        (10**5_000, "is not plain JSON"),
        ("a\x00", "holds the NUL character"),
        (nested(33), "is nested over 32 levels"),
        ({"a": nested(32)}, "is nested over 32 levels"),
        (nested(600), "is nested over 32 levels"),
        (nested(50_000), "is nested over 32 levels"),
        ("x" * 2**20, "has 1,048,578 bytes; at most 1,048,576 are stored"),
        (["é"] * 300_000, "has 1,500,001 bytes; at most 1,048,576 are stored"),
    ],
    ids=[
        "an object",
        "a set",
        "bytes in a list",
        "a number as a key",
        "not a number",
        "half a character",
        "bytes",
        "5,000 digits",
        "a null character",
        "33 levels",
        "32 levels in one",
        "600 levels",
        "50,000 levels",
        "a long text",
        "a long list",
    ],
)
def test_a_result_that_cannot_be_stored_is_the_handlers_fault(run, result, why):
    outcome = run(returning(result))
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason is DeadReason.FATAL
    assert f"the handler of test.run returned a result that {why}" in outcome.failure.message


def test_what_is_stored_of_a_result_is_what_the_handler_returned(firm, job_types):
    result: dict[str, Any] = {"list": [1]}
    job("test.run", category="sync", payload=NamePayload)(returning(result))
    enqueue("test.run", firm=firm)
    claim = take_one()
    outcome = perform(claim)
    # Another thread of the program may still change the object that the handler returned.
    result["list"].append({2})
    finish(claim, outcome)
    assert row(only_id()).result == {"list": [1]}


@pytest.mark.parametrize(
    "result",
    [nested(32), [nested(31)] * 100, "[" * 100, "x" * (2**20 - 2)],
    ids=["deep", "wide", "brackets", "long"],
)
def test_a_result_within_the_bounds_is_stored(run, result):
    assert run(returning(result)) == Completed(result)
    again = take_again()
    finish(again, perform(again))
    assert row(again.job_id).result == result


@pytest.mark.req("J-13")
def test_an_error_text_is_redacted(run):
    outcome = run(raising(ValueError("no user ada@example.org, password=hunter2x")))
    text = outcome.failure.message + outcome.failure.traceback
    assert "ada@example.org" not in text
    assert "hunter2x" not in text


@pytest.mark.req("J-03", "J-12")
@pytest.mark.parametrize(
    "payload",
    [
        {},
        [],
        {"tenant_id": 0, "version": "1.0", "correlation_id": "a", "name": "x"},
        {"version": "1.0", "correlation_id": "a"},
    ],
)
def test_a_stored_payload_that_cannot_be_read_is_dead_at_once(run, firm, job_types, payload):
    run(returning(None))
    job_id = only_id()
    change(job_id, payload=payload, status="pending")
    outcome = perform(take_one())
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason is DeadReason.INVALID_PAYLOAD


@pytest.mark.req("J-04", "J-12")
def test_a_payload_that_its_upcaster_cannot_read_is_dead_at_once(run, job_types):
    run(returning(None), version="2.0", upcasters={"1.0": lambda old: {"name": old["gone"]}})
    stored = row(only_id())
    change(
        stored.pk, payload={**stored.payload, "version": "1.0"}, payload_version="1.0",
        status="pending",
    )  # fmt: skip
    outcome = perform(take_one())
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason is DeadReason.INVALID_PAYLOAD


@pytest.mark.req("J-12")
@pytest.mark.parametrize("older", ["1.0", "1.9.9", "1"])
def test_an_older_payload_without_an_upcaster_is_dead_at_once(run, job_types, older):
    run(returning(None), version="2.0")
    stored = row(only_id())
    change(
        stored.pk, payload={**stored.payload, "version": older}, payload_version=older,
        status="pending",
    )  # fmt: skip
    outcome = perform(take_one())
    assert isinstance(outcome, DeadLettered)
    assert outcome.reason is DeadReason.INVALID_PAYLOAD
    assert f"'{older}' is unknown; test.run reads 2.0" in outcome.failure.message


@pytest.mark.req("J-16")
def test_a_job_canceled_before_it_started_does_not_start(run):
    ran = []
    run(lambda payload, ctx: ran.append(1))
    change(only_id(), status="pending", cancel_requested_at=datetime.now(UTC))
    assert perform(take_one()) == Canceled("canceled before it started")
    assert len(ran) == 1


@pytest.mark.req("J-04", "J-12")
@pytest.mark.parametrize("how", ["type", "9.0", "1.0.1", "next"])
def test_what_only_newer_code_knows_is_handed_back_until_the_grace_is_over(add, job_types, how):
    job_id = add()
    if how == "type":
        del job_types["test.work"]
    else:
        change(job_id, payload_version=how)
    delays = []
    moment = start = row(job_id).scheduled_at
    while True:
        with stopped_at(moment):
            outcome = work_off()
        if not isinstance(outcome, Released):
            break
        assert row(job_id).attempts == 0
        delays.append(outcome.delay_seconds)
        moment = row(job_id).scheduled_at + timedelta(milliseconds=2)
    waited = (moment - start).total_seconds()
    assert delays[:4] == pytest.approx([5, 10, 20, 40])
    assert max(delays) == 300
    assert waited == pytest.approx(unknown_type_grace_seconds(), abs=1)
    (letter,) = dead_letters()
    assert letter.reason == "unknown_type"
    assert letter.error.startswith("No handler registered for job_type: test.work")
    assert (row(job_id).status, row(job_id).attempts) == ("dlq", 1)
    assert {attempt.end for attempt in attempts()[:-1]} == {"released"}


@pytest.mark.req("J-12")
def test_a_worker_that_knows_the_type_takes_over_within_the_grace(add, job_types):
    add()
    known = job_types.pop("test.work")
    assert isinstance(work_off(), Released)
    job_types["test.work"] = known
    assert take() == []
    with later(6):
        held = take_one()
        assert (held.attempts, perform(held)) == (1, Completed({}))


@pytest.mark.req("J-12", "D-01")
def test_from_enqueue_to_dead_letter_and_its_history(run, firm):
    outcome = run(raising(ValueError("broken")), max_attempts=2)
    change(only_id(), status="pending", attempts=0)
    assert isinstance(work_off(), Retry)
    with later(61):
        work_off()
    stored = row(only_id())
    assert (stored.status, stored.attempts, stored.last_error) == ("dlq", 2, "broken")
    assert [(one.number, one.end) for one in attempts()] == [(1, "retried"), (2, "dead_lettered")]
    (letter,) = dead_letters()
    assert (letter.reason, letter.error_class) == ("exhausted", "ValueError")
    assert letter.fingerprint == outcome.failure.fingerprint
