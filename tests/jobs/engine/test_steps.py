"""Steps and progress, which only the holder of the claim can store; and the rest of `ctx`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol, TypedDict
from uuid import UUID

import psycopg
import pytest
from django.db import connection, transaction
from django.utils.translation import gettext_lazy

from jobs.engine.clock import database_now
from jobs.engine.outcomes import Released
from jobs.engine.steps import to_json
from jobs.errors import ArgumentsInvalid, Cancel, Fatal, LeaseLost
from jobs.execution.connections import IDLE_SECONDS
from jobs.execution.context import JobContext, Signals, calls
from jobs.models import JobStep
from jobs.queue import EnqueueSpec
from jobs.registry import JobPayload
from jobs.states import Priority, Status
from tests.queue_kit import RunningJob, as_current_job, context, finish, row, rows, take_one
from tests.support.databases import database_url, postgresql_only, unpooled_only
from tests.support.nesting import nested

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-18")]


class _Typed(TypedDict):
    amount: int


class _Shaped(Protocol):
    amount: int


STORABLE = (
    None, Any, object, dict[str, int], Mapping[str, int], _Typed, _Shaped, list[date], int | None,
    "int | None", "Unknown", "dict[str, Any]", UUID, Decimal, datetime, bool, Status,
)  # fmt: skip


@pytest.fixture
def late_and_current(add) -> tuple[JobContext, JobContext]:
    """Return the contexts of an old holder and of the present holder of one job."""
    add()
    late = take_one()
    finish(late, Released("taken away"))
    return context(late), context(take_one())


def end_session() -> None:
    """End the server's session of this thread, as `idle_session_timeout` does."""
    process = connection.connection.info.backend_pid
    with psycopg.connect(database_url(), autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [process])


@pytest.fixture(params=[True, False], ids=["checked", "unchecked"])
def health_checks(request, monkeypatch):
    """Run the test in a project that has Django check its connections, and in one that does not."""
    connection.ensure_connection()
    monkeypatch.setattr(transaction.get_connection(), "health_check_enabled", request.param)


@postgresql_only
@unpooled_only
@pytest.mark.usefixtures("health_checks")
def test_a_step_is_stored_although_the_server_ended_the_idle_session_meanwhile(add, monkeypatch):
    add()
    ctx = context(take_one())
    monkeypatch.setattr(calls, "monotonic", iter([100.0, 190.5]).__next__)
    ctx.step("charge", end_session)
    assert [step.name for step in rows(JobStep)] == ["charge"]


@postgresql_only
@unpooled_only
@pytest.mark.usefixtures("health_checks")
def test_a_job_completes_although_the_server_ended_the_idle_session_meanwhile(add):
    job_id = add()
    ctx = context(take_one())
    ctx._begun -= IDLE_SECONDS
    end_session()
    with ctx.transaction() as tx:
        tx.result = {"done": True}
    assert row(job_id).status == Status.COMPLETED


def test_a_step_runs_once_and_its_result_survives_the_attempt(late_and_current):
    _, second = late_and_current
    calls = []

    def charge(amount: int) -> dict[str, int]:
        calls.append(amount)
        return {"charged": amount}

    assert second.step("charge", charge, 5) == {"charged": 5}
    assert second.step("charge", charge, 5) == {"charged": 5}
    finish(second._claim, Released("once more"))
    third = context(take_one())
    assert third.step("charge", charge, 6) == {"charged": 5}
    assert calls == [5]


def test_it_is_kept_when_a_step_started_and_when_it_finished(late_and_current, monkeypatch):
    _, ctx = late_and_current
    monkeypatch.setattr(calls, "monotonic", iter([100.0, 190.5]).__next__)
    before = database_now()
    ctx.step("charge", dict)
    (step,) = rows(JobStep)
    assert before <= step.finished_at <= database_now()
    assert step.finished_at - step.started_at == timedelta(seconds=90.5)
    # If the stored step is found, both times stay.
    ctx.step("charge", dict)
    assert rows(JobStep) == [step]
    assert rows(JobStep)[0].started_at == step.started_at


@pytest.mark.parametrize("result", [None, False, 0, "", [], {"a": ["é", 1.5, None]}])
def test_any_json_comes_back_as_it_was(late_and_current, result):
    _, ctx = late_and_current
    calls = []

    def once():
        calls.append(1)
        return result

    assert ctx.step("once", once) == ctx.step("once", once) == result
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        (("a", ("b", 1)), ["a", ["b", 1]]),
        ({"pair": ("a", "b")}, {"pair": ["a", "b"]}),
        ({"longest": 1, "short": 2, "b": 3}, {"longest": 1, "short": 2, "b": 3}),
        ([1e22, -0.0, 1.0, 1e-7, 10**30], [1e22, 0, 1.0, 1e-7, 10**30]),
        (Priority.HIGH, 1),
        (Status.PENDING, "pending"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (
            {"due": date(2026, 3, 1), "at": datetime(2026, 3, 1, 9, 30, 0, 123456, tzinfo=UTC)},
            {"due": "2026-03-01", "at": "2026-03-01T09:30:00.123456+00:00"},
        ),
        ([Decimal("1.10"), time(9, 30), timedelta(hours=1)], ["1.10", "09:30:00", "P0DT01H00M00S"]),
    ],
    ids=[
        "tuples",
        "a tuple inside",
        "the order of keys",
        "numbers",
        "an IntEnum",
        "a StrEnum",
        "a UUID",
        "times",
        "amounts",
    ],
)
def test_a_step_returns_the_first_time_what_it_returns_on_every_replay(
    late_and_current, result, stored
):
    _, ctx = late_and_current
    first, replayed = ctx.step("once", lambda: result), ctx.step("once", lambda: "other")
    assert first == stored
    # `repr` compares types, the signs of zeros and the order of keys, too.
    assert repr(first) == repr(replayed)


def test_what_a_step_stored_is_read_back_by_payload_fields():
    class Receipt(JobPayload):
        number: UUID
        amount: Decimal
        at: datetime
        lasts: timedelta

    values = {
        "number": UUID(int=7),
        "amount": Decimal("1.10"),
        "at": datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
        "lasts": timedelta(hours=-1),
    }
    envelope = {"tenant_id": 1, "version": "1.0", "correlation_id": "c"}
    read = Receipt.model_validate_json(to_json({**envelope, **values}))
    assert {name: getattr(read, name) for name in values} == values


def test_a_steps_function_takes_keywords_also_those_of_the_step_itself(late_and_current):
    _, ctx = late_and_current

    def greet(greeting, *, name, function="?"):
        return f"{greeting} {name} {function}"

    assert ctx.step("greet", greet, "Hello", name="Ada", function="!") == "Hello Ada !"


def returns_bytes() -> bytes:
    raise AssertionError("called")


def returns_a_set() -> set[int]:
    raise AssertionError("called")


async def returns_a_model() -> JobStep:
    raise AssertionError("called")


@pytest.mark.parametrize(
    ("name", "function", "why"),
    [
        ("a", returns_bytes, "step 'a' is declared to return bytes"),
        ("a", returns_a_set, "step 'a' is declared to return set"),
        ("a", returns_a_model, "step 'a' is declared to return JobStep"),
        ("x" * 201, lambda: 1 / 0, "a step's name is refused: must have 1 to 200 characters"),
        ("", lambda: 1 / 0, "a step's name is refused: must have 1 to 200 characters"),
        ("a\x00", lambda: 1 / 0, "a step's name is refused: must have 1 to 200 characters"),
        ("\ud800", lambda: 1 / 0, "a step's name is refused: a lone surrogate is not text"),
        (7, lambda: 1 / 0, "a step's name is refused: must be a string"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_the_side_effect(
    late_and_current, name, function, why
):
    _, ctx = late_and_current
    with pytest.raises(Fatal, match=why):
        ctx.step(name, function)


def test_declarations_that_may_be_stored_are_not_refused(late_and_current):
    _, ctx = late_and_current
    for number, declared in enumerate(STORABLE):

        def returns():
            return {}

        returns.__annotations__["return"] = declared
        assert ctx.step(str(number), returns) == {}


def test_steps_have_names_of_their_own(late_and_current):
    _, ctx = late_and_current
    assert [ctx.step("a", lambda: 1), ctx.step("b", lambda: 2), ctx.step("a", lambda: 3)] == [
        1,
        2,
        1,
    ]


def test_of_one_step_taken_twice_at_once_the_first_result_stays(late_and_current):
    # The inner call is a second task or thread, which takes the step while the first one runs it.
    _, ctx = late_and_current
    first = []

    def outpaced() -> str:
        first.append(ctx.step("rate", lambda: "first"))
        return "second"

    assert ctx.step("rate", outpaced) == "first"
    assert first == ["first"]
    finish(ctx._claim, Released("once more"))
    assert context(take_one()).step("rate", lambda: "third") == "first"


def test_a_step_that_fails_is_not_stored(late_and_current):
    _, ctx = late_and_current
    with pytest.raises(ZeroDivisionError):
        ctx.step("a", lambda: 1 / 0)
    assert ctx.step("a", lambda: "second try") == "second try"


def circular() -> list[Any]:
    circle: list[Any] = []
    circle.extend([circle, circle])
    return circle


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (object(), r"is not plain JSON: \$: object is not JSON$"),
        (float("nan"), r"is not plain JSON: \$: NaN and infinity are not JSON$"),
        ("\ud800", r"is not plain JSON: \$: a lone surrogate is not text$"),
        ({1, 2}, r"is not plain JSON: \$: set is not JSON$"),
        ([1, {"a": (2, {3})}], r"is not plain JSON: \$\[1\]\.a\[1\]: set is not JSON$"),
        ({"a": 10**5_000}, r"is not plain JSON: \$\.a: integers are limited to 1,024 bits$"),
        ({"\ud800": {3}}, "is not plain JSON: \\$\\.\\?: a lone surrogate is not text$"),
        (
            {"\x00": {3}},
            "is not plain JSON: \\$\\.\N{REPLACEMENT CHARACTER}: the NUL character cannot be stored$",
        ),
        (circular(), r"is not plain JSON: \$(\[0\]){32}: nested over 32 levels$"),
        ("a\x00b", "holds the NUL character"),
        ({1: ("a", "b")}, r"has a key that is no string at \$"),
        ({"a": [{}, ({None: 1},)]}, r"has a key that is no string at \$\.a\[1\]\[0\]"),
        ({"a": {("x", "y"): 1}}, r"is not plain JSON: \$\.a\.\('x', 'y'\): keys must be strings$"),
        (nested(33), "is nested over 32 levels"),
        ({"a": "x" * 2**20}, "has 1,048,584 bytes; at most 1,048,576 are stored"),
    ],
    ids=[
        "an object",
        "not a number",
        "half a character",
        "a set",
        "a set in a pair",
        "5,000 digits",
        "half a character in a key",
        "a null character in a key",
        "a circle",
        "a null character",
        "a number as a key",
        "None as a key",
        "a pair as a key",
        "deep",
        "long",
    ],
)
def test_a_result_that_cannot_be_stored_ends_the_job_for_good(late_and_current, result, why):
    _, ctx = late_and_current
    with pytest.raises(Fatal, match=f"^step 'a' returned a result that {why}$"):
        ctx.step("a", lambda: result)
    assert rows(JobStep) == []


@pytest.mark.req("J-09")
def test_a_late_holder_stores_no_step_and_no_progress(late_and_current):
    late, current = late_and_current
    with pytest.raises(LeaseLost):
        late.step("a", lambda: "late")
    with pytest.raises(LeaseLost):
        late.progress(0.9, "late")
    with pytest.raises(LeaseLost):
        late.heartbeat()
    assert rows(JobStep) == []
    assert row(late.job_id).progress is None
    current.heartbeat()
    assert current.step("a", lambda: "current") == "current"


def test_progress_is_shown(late_and_current):
    _, ctx = late_and_current
    ctx.progress(0.4, "x" * 300)
    assert (row(ctx.job_id).progress, row(ctx.job_id).progress_note) == (0.4, "x" * 199 + "…")
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            ctx.progress(wrong)
    assert row(ctx.job_id).progress == 0.4
    for done, stored in ((Fraction(1, 2), 0.5), (Decimal("0.75"), 0.75), (True, 1.0)):
        ctx.progress(done)
        assert row(ctx.job_id).progress == stored


@pytest.mark.req("J-18")
@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ("a\x00b", "a\ufffdb"),
        ("half \ud800", "half ?"),
        ("to ada@acme.example", "to [redacted]"),
        (gettext_lazy("half"), "half"),
        (ValueError("half"), "half"),
        (None, ""),
    ],
    ids=["NUL", "half a character", "an address", "a translation", "an error", "none"],
)
def test_the_note_of_the_progress_is_cleaned_as_a_line_of_the_log(late_and_current, note, shown):
    _, ctx = late_and_current
    ctx.progress(0.4, note)
    assert row(ctx.job_id).progress_note == shown


@pytest.mark.req("J-09", "J-16")
@pytest.mark.parametrize(
    "call",
    [
        lambda ctx: ctx.heartbeat(),
        lambda ctx: ctx.progress(0.5),
        lambda ctx: ctx.step("a", lambda: 1),
        lambda ctx: ctx.enqueue("test.work"),
        lambda ctx: ctx.enqueue_many([EnqueueSpec("test.work")]),
    ],
)
@pytest.mark.parametrize(
    ("stop", "error"),
    [
        (lambda signals: signals.lease_lost.set(), LeaseLost),
        (lambda signals: setattr(signals, "cancel_requested", True), Cancel),
    ],
    ids=["lease lost", "canceled"],
)
def test_every_call_stops_a_handler_that_lost_its_lease_or_was_canceled(add, call, stop, error):
    add()
    signals = Signals()
    ctx = context(take_one(), signals)
    call(ctx)
    stop(signals)
    with pytest.raises(error):
        call(ctx)


def test_children_belong_to_the_jobs_firm_and_know_their_parent(firm, other_firm, add):
    add(firm=other_firm)
    held = take_one()
    ctx = context(held)
    with as_current_job(RunningJob(held.job_id, held.firm_id)):
        child = ctx.enqueue("test.work", {"name": "child"}, priority=1).job
        (other,) = ctx.enqueue_many([EnqueueSpec("test.work")])
    assert (child.firm_id, child.parent_id, child.priority) == (other_firm.pk, held.job_id, 1)
    assert other.job.parent_id == held.job_id


@pytest.mark.req("J-06")
def test_a_child_of_another_firm_is_refused(firm, other_firm, add):
    add(firm=firm)
    ctx = context(take_one())
    for wrong in (other_firm, other_firm.pk, "acme"):
        with pytest.raises(
            ArgumentsInvalid, match=r"^firm: must be the job's own: for another firm "
        ):
            ctx.enqueue("test.work", firm=wrong)
    for own in (firm, firm.pk, None):
        assert ctx.enqueue("test.work", firm=own).job.firm_id == firm.pk


def test_progress_is_a_number(add):
    add()
    ctx = context(take_one())
    with pytest.raises(TypeError, match=r"^fraction must be a number from 0 to 1, not str$"):
        ctx.progress("half")


def test_what_a_handler_can_know(add):
    job_id = add(max_attempts=2, correlation_id="abc")
    first = context(take_one())
    assert (first.job_id, first.correlation_id, first.attempt) == (job_id, "abc", 1)
    assert not first.is_last_attempt
    assert first.firm.pk == first.firm_id
    finish(first._claim, Released("taken away"))
    second = context(take_one())
    assert second.fence > first.fence
