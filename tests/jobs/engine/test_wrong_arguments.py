"""Arguments of the wrong type: each is refused by name, and the error says what to pass."""

from __future__ import annotations

import asyncio
from collections import UserDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.engine.enqueue import enqueue_for_firms
from jobs.errors import (
    ArgumentsInvalid,
    EditInvalid,
    Fatal,
    Fault,
    LockInvalid,
    PayloadInvalid,
    ScheduleInvalid,
    Snooze,
    UnknownJob,
    UnknownJobType,
    WrongPlace,
)
from jobs.models import DeadLetterQueue, JobQueue, Pause, RateLimit, Schedule
from jobs.operations.schedules import change_schedule, create_schedule
from jobs.queue import (
    EnqueueSpec,
    acquire_lock,
    batch_progress,
    cancel,
    clear_rate_limit,
    edit,
    enqueue,
    enqueue_batch,
    enqueue_chain,
    enqueue_many,
    escalate,
    force_release,
    pause,
    release_lock,
    renew_lock,
    reprocess,
    set_rate_limit,
)
from jobs.registry import JobPayload, JobType, job
from jobs.testing import run_job
from tenants.errors import MissingTenant
from tenants.models import Firm
from tests.factories.tenants import UserFactory
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-06")]

GOOD = EnqueueSpec("noop")


@pytest.fixture
def greet(job_types: dict[str, JobType]) -> Any:
    """Return a declared function."""

    @job("test.greet", category="sync", payload=JobPayload)
    def greet(payload: JobPayload, ctx: Any) -> None:
        pass

    return greet


def test_a_function_in_place_of_its_name_is_told_how_to_enqueue(firm: Firm, greet: Any) -> None:
    with pytest.raises(PayloadInvalid) as caught:
        enqueue(greet, {}, firm=firm)
    assert str(caught.value) == (
        "test.greet refused: job_type: must be the name of a job type, not function:"
        " call greet.enqueue(…), or pass 'test.greet'"
    )


def test_a_function_is_told_apart_from_a_name_also_without_tasks(
    firm: Firm, greet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A project without `django.tasks` has no finder, which would have refused the function.
    monkeypatch.setattr(registry, "_finders", [])
    with pytest.raises(PayloadInvalid, match=r"must be the name of a job type, not function: call"):
        enqueue(greet, {}, firm=firm)
    with pytest.raises(PayloadInvalid, match=r"must be the name of a job type, not NoneType$"):
        enqueue(None, {}, firm=firm)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"name": "Ada"}, 7, None, print])
def test_what_is_no_name_of_a_type_is_refused(firm: Firm, given: Any) -> None:
    with pytest.raises(PayloadInvalid) as caught:
        enqueue(given, firm=firm)
    message = f"must be the name of a job type, not {type(given).__name__}"
    assert caught.value.errors == [{"field": "job_type", "code": "wrong_type", "message": message}]


@pytest.mark.parametrize("store", [enqueue_many, enqueue_chain, enqueue_batch])
@pytest.mark.parametrize("wrong", ["noop", ("noop", {}), {"job_type": "noop"}, print])
def test_what_is_no_spec_is_refused_with_its_place(firm: Firm, store: Any, wrong: Any) -> None:
    with pytest.raises(ArgumentsInvalid) as caught:
        store([GOOD, wrong], firm=firm)
    kind = type(wrong).__name__
    assert str(caught.value) == (
        f"jobs.1: must be an EnqueueSpec, as `greet.spec(…)` returns, not {kind}"
    )
    assert rows(JobQueue) == []


@pytest.mark.parametrize("store", [enqueue_many, enqueue_chain, enqueue_batch])
def test_of_many_jobs_the_refused_one_is_named(firm: Firm, store: Any) -> None:
    with pytest.raises(
        PayloadInvalid, match=r"^noop refused: jobs\.1\.nme: Extra inputs "
    ) as caught:
        store([GOOD, EnqueueSpec("noop", {"nme": "Ada"})], firm=firm)
    assert [fault["field"] for fault in caught.value.errors] == ["jobs.1.nme"]
    with pytest.raises(UnknownJobType, match=r"jobs\.1\.job_type: No handler .* mean noop\?"):
        store([GOOD, EnqueueSpec("nop")], firm=firm)
    assert rows(JobQueue) == []


# Only outside a transaction are many jobs stored batch by batch.
@pytest.mark.django_db(transaction=True)
def test_of_very_many_jobs_the_refused_one_is_named(firm: Firm) -> None:
    with pytest.raises(PayloadInvalid, match=r"^noop refused: jobs\.600\.nme: Extra inputs "):
        enqueue_many([*[GOOD] * 600, EnqueueSpec("noop", {"nme": "Ada"})], firm=firm)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("good", [1, 600])
def test_jobs_that_are_no_list_of_the_caller_have_no_place(firm: Firm, good: int) -> None:
    specs = [*[GOOD] * good, EnqueueSpec("noop", {"nme": "Ada"})]
    with pytest.raises(PayloadInvalid, match=r"^noop refused: nme: Extra inputs "):
        enqueue_for_firms([(firm.pk, spec) for spec in specs])


@pytest.mark.parametrize("event", ["on_failed", "on_settled", "on_completed"])
def test_the_refused_callback_of_a_batch_is_named(firm: Firm, event: str) -> None:
    with pytest.raises(PayloadInvalid, match=rf"^noop refused: {event}\.nme: Extra inputs "):
        enqueue_batch([GOOD], firm=firm, **{event: EnqueueSpec("noop", {"nme": "Ada"})})


def test_a_payload_is_a_dict(firm: Firm) -> None:
    for wrong in (JobPayload(), "Ada", [1]):
        told = rf"^noop refused: payload: must be a dict .* fields, not {type(wrong).__name__}$"
        with pytest.raises(PayloadInvalid, match=told):
            enqueue("noop", wrong, firm=firm)  # type: ignore[arg-type]


@pytest.mark.parametrize("store", [enqueue_many, enqueue_chain, enqueue_batch])
def test_what_is_no_spec_is_refused_in_the_middle_of_a_generator(firm: Firm, store: Any) -> None:
    specs = (GOOD if place != 5 else "noop" for place in range(10))
    with pytest.raises(ArgumentsInvalid, match=r"^jobs\.5: must be an EnqueueSpec, .* not str$"):
        store(specs, firm=firm)
    assert rows(JobQueue) == []


@pytest.mark.parametrize("store", [enqueue_many, enqueue_chain, enqueue_batch])
def test_an_error_of_the_generator_itself_is_raised_as_it_is(firm: Firm, store: Any) -> None:
    def specs() -> Any:
        yield GOOD
        raise TypeError("no more")

    with pytest.raises(TypeError, match=r"^no more$"):
        store(specs(), firm=firm)
    assert rows(JobQueue) == []


@pytest.mark.parametrize("store", [enqueue_many, enqueue_chain, enqueue_batch])
@pytest.mark.parametrize("wrong", [GOOD, 5])
def test_one_spec_is_no_list(firm: Firm, store: Any, wrong: Any) -> None:
    with pytest.raises(ArgumentsInvalid, match="jobs: must be a list of EnqueueSpec, not "):
        store(wrong, firm=firm)


@pytest.mark.parametrize("store", [enqueue_many, enqueue_batch])
def test_none_is_no_list(firm: Firm, store: Any) -> None:
    with pytest.raises(
        ArgumentsInvalid, match=r"^jobs: must be a list of EnqueueSpec, not NoneType$"
    ):
        store(None, firm=firm)


@pytest.mark.parametrize("store", [enqueue_many, enqueue_chain, enqueue_batch])
def test_the_specs_may_come_from_a_generator(firm: Firm, store: Any) -> None:
    store((GOOD for _ in range(2)), firm=firm)
    assert [job.job_type for job in rows(JobQueue)][:1] == ["noop"]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"name": 7}, "name: must be a string"),
        ({"batch_id": "May"}, "batch_id: must be a UUID, not str"),
    ],
)
def test_a_batch_whose_name_or_id_is_of_the_wrong_kind_is_refused(
    firm: Firm, wrong: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ArgumentsInvalid, match=f"^{fault}$"):
        enqueue_batch([GOOD], firm=firm, **wrong)


def test_what_takes_the_name_of_a_type_says_so_of_a_function(firm: Firm, greet: Any) -> None:
    told = "^job_type: must be the name of a job type, not function: .* pass 'test.greet'$"
    for call in (
        lambda: create_schedule("Greet", greet, firm=firm, cron="0 7 * * *"),
        lambda: pause(firm=firm, job_type=greet, reason="why"),
        lambda: set_rate_limit(greet, 1, 60, firm=firm),
    ):
        with pytest.raises(ArgumentsInvalid, match=told):
            call()


@pytest.mark.parametrize("wrong", [{"key": 7}, {"key": None}])
def test_a_lock_whose_key_is_no_string_is_refused(firm: Firm, wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsInvalid, match=r"^key: must be a string$"):
        acquire_lock(firm=firm, ttl_seconds=60, **wrong)


def test_seconds_are_a_number(firm: Firm) -> None:
    minute: Any = timedelta(minutes=1)
    with pytest.raises(ArgumentsInvalid, match=r"^ttl_seconds: must be a number$"):
        acquire_lock("key", minute, firm=firm)
    with pytest.raises(ArgumentsInvalid, match=r"^per_seconds: must be a number$"):
        set_rate_limit("noop", 1, minute, firm=firm)


@pytest.mark.parametrize("name", ["delay", "unique_for", "max_wait"])
@pytest.mark.parametrize("wrong", ["5", b"5", True, Decimal(5), [5]])
def test_a_span_is_a_timedelta_or_a_number(firm: Firm, name: str, wrong: Any) -> None:
    options: dict[str, Any] = {name: wrong}
    if name == "max_wait":
        options |= {"on_conflict": "debounce", "delay": 5, "idempotency_key": "key"}
    with pytest.raises(PayloadInvalid) as caught:
        enqueue("noop", firm=firm, **options)
    message = f"must be a timedelta or a number of seconds, not {type(wrong).__name__}"
    assert caught.value.errors == [{"field": name, "code": "wrong_type", "message": message}]
    assert rows(JobQueue) == []


class Nowhere(tzinfo):
    """A zone without an offset, which the base class allows."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None


@pytest.mark.parametrize("name", ["at", "expires_at"])
def test_a_time_whose_zone_knows_no_offset_has_none(firm: Firm, name: str) -> None:
    moment: dict[str, Any] = {name: datetime(2030, 1, 1, tzinfo=Nowhere())}
    with pytest.raises(PayloadInvalid, match=f"{name}: must carry a time zone$"):
        enqueue("noop", firm=firm, **moment)
    with pytest.raises(ArgumentsInvalid, match=r"^until: must carry a time zone$"):
        pause(firm=firm, reason="away", until=moment[name])
    with pytest.raises(ValueError, match="takes an aware datetime"):
        Snooze(until=moment[name])


@pytest.mark.parametrize(
    "wrong", [UserDict({"deep": 1}), [UserDict()]], ids=["an object", "in a list"]
)
def test_an_object_inside_a_payload_is_a_dict(firm: Firm, job_types: Any, wrong: Any) -> None:
    class AnyPayload(JobPayload):
        value: Any = None

    job("test.any", category="sync", payload=AnyPayload)(lambda payload, ctx: None)
    with pytest.raises(PayloadInvalid, match=r"value(\[0\])?: UserDict is not JSON$"):
        enqueue("test.any", {"value": wrong}, firm=firm)
    assert enqueue("test.any", UserDict(value=1), firm=firm).created


def test_an_error_of_a_types_own_function_is_not_taken_for_a_wrong_spec(
    firm: Firm, job_types: Any
) -> None:
    def key(payload: Any) -> str:
        return str(payload.nmae)

    job("test.slip", category="sync", payload=JobPayload, lock_key=key)(lambda payload, ctx: None)
    with pytest.raises(PayloadInvalid, match="lock_key") as refused:
        enqueue_many([EnqueueSpec("test.slip")], firm=firm)
    cause = refused.value.__cause__
    assert isinstance(cause, AttributeError)
    assert "nmae" in str(cause)


@pytest.mark.parametrize("event", ["on_failed", "on_settled", "on_completed"])
def test_a_callback_that_is_no_spec_is_refused(firm: Firm, event: str) -> None:
    wrong: dict[str, Any] = {event: "noop"}
    with pytest.raises(ArgumentsInvalid, match=f"^{event}: must be an EnqueueSpec, .* not str$"):
        enqueue_batch([GOOD], firm=firm, **wrong)
    assert rows(JobQueue) == []


def test_what_is_no_firm_is_refused_also_where_it_has_an_id(firm: Firm) -> None:
    user = UserFactory(pk=firm.pk, username="ada")
    for wrong in ("acme", str(firm.pk), user, True):
        with pytest.raises(ArgumentsInvalid, match=r"^firm: must be a Firm or the id of one, not "):
            enqueue("noop", firm=wrong)
    with pytest.raises(ArgumentsInvalid, match=r"^firm: no firm has the id 0$"):
        enqueue("noop", firm=0)
    assert rows(JobQueue) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("acme", "firm: must be a Firm or the id of one, not str"),
        (True, "firm: must be a Firm or the id of one, not bool"),
        (0, "firm: no firm has the id 0"),
        (2**63, f"firm: no firm has the id {2**63}"),
    ],
)
def test_what_is_no_firm_has_no_limits(firm: Firm, wrong: Any, complaint: str) -> None:
    for call in (
        lambda: pause(firm=wrong, reason="away"),
        lambda: set_rate_limit("noop", 1, 60, firm=wrong),
        lambda: clear_rate_limit("noop", firm=wrong),
    ):
        with pytest.raises(ArgumentsInvalid, match=complaint):
            call()
    assert rows(Pause) == rows(RateLimit) == []


@pytest.mark.parametrize("name", ["category", "job_type", "limit_key"])
def test_what_a_limit_is_about_is_text(firm: Firm, name: str) -> None:
    for wrong in (b"noop", SimpleLazyObject(lambda: "noop"), ["noop"]):
        given: dict[str, Any] = {name: wrong}
        with pytest.raises(ArgumentsInvalid, match=rf"^{name}: must be "):
            pause(firm=firm, reason="away", **given)
        if name != "category":
            with pytest.raises(ArgumentsInvalid, match=rf"^{name}: must be "):
                clear_rate_limit(**{"job_type": "noop", "firm": firm, **given})
    with pytest.raises(ArgumentsInvalid, match=r"^job_type: the NUL character"):
        clear_rate_limit("no\x00op", firm=firm)
    with pytest.raises(ArgumentsInvalid, match=r"^counted_by: 'each' is unknown"):
        clear_rate_limit("noop", firm=firm, counted_by="each")


def test_who_did_it_is_a_user_and_the_reason_is_text(firm: Firm) -> None:
    waiting = enqueue("noop", firm=firm, delay=60).job_id
    user = UserFactory(username="ada")
    for wrong in ("ada", user.pk):
        with pytest.raises(ArgumentsInvalid, match=r"^by: must be a user, not (str|int)$"):
            cancel(waiting, by=wrong)  # type: ignore[arg-type]
    for wrong in (None, b"away", gettext_lazy("Away")):
        with pytest.raises(ArgumentsInvalid, match=r"^reason: must be a string, not "):
            cancel(waiting, by=user, reason=wrong)  # type: ignore[arg-type]
        with pytest.raises(ArgumentsInvalid, match=r"^reason: must be a string, not "):
            force_release(str(uuid4()), wrong)  # type: ignore[arg-type]
    assert [one.status for one in rows(JobQueue)] == ["pending"]


def test_a_lock_is_what_acquire_lock_returned(firm: Firm) -> None:
    acquire_lock("key", 60, firm=firm)
    taken: Any = acquire_lock("key", 60, firm=firm)
    for call in (lambda: release_lock(taken), lambda: renew_lock(taken, 60)):
        with pytest.raises(LockInvalid, match=r"^lock: must be what acquire_lock returned, not No"):
            call()


def test_what_is_no_id_of_a_batch_names_none() -> None:
    for wrong in ("", "today", None, b"today"):
        with pytest.raises(UnknownJob, match="is not an id"):
            batch_progress(wrong)  # type: ignore[arg-type]


def test_a_lazy_text_is_no_text(firm: Firm, job_types: Any) -> None:
    class AnyPayload(JobPayload):
        value: Any = None

    job("test.any", category="sync", payload=AnyPayload)(lambda payload, ctx: None)
    lazy: Any = SimpleLazyObject(lambda: "text")
    with pytest.raises(PayloadInvalid, match=r"value: SimpleLazyObject is not JSON"):
        enqueue("test.any", {"value": lazy}, firm=firm)
    with pytest.raises(PayloadInvalid, match=r"text: keys must be strings"):
        enqueue("test.any", {"value": {lazy: 1}}, firm=firm)
    for name in ("lock_key", "limit_key", "idempotency_key"):
        with pytest.raises(PayloadInvalid, match=f"{name}: must be a string"):
            enqueue("test.any", firm=firm, **{name: lazy})
    with pytest.raises(LockInvalid, match=r"key: must be a string"):
        acquire_lock(lazy, 60, firm=firm)


def test_an_option_that_does_not_exist_is_refused_at_once(greet: Any) -> None:
    complaint = r"^using\(\) got an unexpected keyword argument 'dely'; did you mean delay\?$"
    with pytest.raises(TypeError, match=complaint):
        greet.using(dely=3)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (enqueue, ["noop"]),
        (enqueue_chain, [[GOOD]]),
        (enqueue_batch, [[GOOD]]),
        (acquire_lock, ["key", 60]),
    ],
)
def test_the_call_that_needs_a_firm_is_named(
    firm: Firm, other_firm: Firm, call: Any, arguments: list[Any]
) -> None:
    with pytest.raises(MissingTenant, match=f"^{call.__name__}: there are several firms"):
        call(*arguments)


def test_a_fault_of_no_field_is_told_without_one() -> None:
    refused = EditInvalid([Fault("", "required", "give a time"), Fault("at", "x", "is past")])
    assert str(refused) == "give a time; at: is past"


def test_a_row_of_another_model_is_no_user(firm: Firm) -> None:
    user = UserFactory(username="ada", pk=firm.pk)
    with pytest.raises(PayloadInvalid, match=r"user: must be a user, or the id of one"):
        enqueue("noop", firm=firm, user=firm)
    assert enqueue("noop", firm=firm, user=SimpleLazyObject(lambda: user)).job.user_id == user.pk


def test_a_user_who_is_not_stored_is_no_user_yet_even_with_an_id(firm: Firm) -> None:
    stored, new = UserFactory(username="ada"), get_user_model()(pk=9999, username="bob")
    for store in (enqueue_many, enqueue_batch):
        with pytest.raises(PayloadInvalid, match=r"user: no user has the id 9999"):
            store([GOOD, EnqueueSpec("noop", user=new)], firm=firm)
    assert rows(JobQueue) == []
    assert enqueue("noop", firm=firm, user=type(stored)(pk=stored.pk)).job.user_id == stored.pk


def test_a_firm_that_is_not_stored_is_no_firm_yet_even_with_an_id(firm: Firm) -> None:
    new = Firm(pk=9999, name="new", slug="new")
    for refused in (
        lambda: enqueue("noop", firm=new),
        lambda: enqueue_many([GOOD], firm=new),
        lambda: pause(firm=new, reason="away"),
    ):
        with pytest.raises(ArgumentsInvalid, match=r"^firm: no firm has the id 9999"):
            refused()
    assert rows(JobQueue) == []
    assert enqueue("noop", firm=Firm(pk=firm.pk)).created


def test_who_did_it_and_who_is_asked_are_stored_users(
    firm: Firm, job_types: dict[str, JobType]
) -> None:
    class Named:
        def get_username(self) -> str:
            return "ada"

    @job("test.hopeless", category="sync", payload=JobPayload)
    def hopeless(payload: JobPayload, ctx: Any) -> None:
        raise Fatal("no")

    run_job("test.hopeless", firm=firm)
    (dead_letter,) = rows(DeadLetterQueue)
    new, gone = get_user_model()(pk=9999, username="bob"), UserFactory(username="eve")
    gone.delete()
    for wrong, message in (
        *((wrong, "must be a user, not ") for wrong in (firm, Named(), AnonymousUser())),
        *((wrong, "is not stored yet: save the user first") for wrong in (new, gone)),
    ):
        with pytest.raises(ArgumentsInvalid, match=rf"^by: {message}"):
            reprocess(dead_letter, by=wrong)
        with pytest.raises(ArgumentsInvalid, match=rf"^to: {message}"):
            escalate(dead_letter, "who knows it?", to=wrong)
    for wrong in ("ada", 1, ["ada"]):
        with pytest.raises(ArgumentsInvalid, match=r"^to: must be a user, not "):
            escalate(dead_letter, "who knows it?", to=wrong)  # type: ignore[arg-type]
    assert [one.resolution for one in rows(DeadLetterQueue)] == [""]


WRONG_IN_A_SCHEDULE = {
    "name": [None, True, 7, ["a"], SimpleLazyObject(lambda: "a")],
    "cron": [7, ["0 7 * * *"], {}],
    "interval_seconds": [float("inf"), 60.5, "60", True],
    "time_zone": [7, None, ["UTC"]],
    "group_name": [None, ["a"], {}],
    "payload": [True, 7, "a", ["a"], False, 0, ""],
    "priority": [float("inf"), "1", True],
}


@pytest.mark.parametrize("field", WRONG_IN_A_SCHEDULE)
def test_what_a_schedule_is_made_of_is_refused_by_name(firm: Firm, field: str) -> None:
    good: dict[str, Any] = {"name": "Greet", "job_type": "noop", "firm": firm}
    good["cron"] = None if field == "interval_seconds" else "0 7 * * *"
    for wrong in WRONG_IN_A_SCHEDULE[field]:
        with pytest.raises(ScheduleInvalid, match=rf"^{field}: must be "):
            create_schedule(**{**good, field: wrong})
    assert rows(Schedule) == []
    if field != "interval_seconds":
        schedule = create_schedule(**good)
        with pytest.raises(ScheduleInvalid, match=rf"^{field}: must be "):
            change_schedule(schedule, **{field: WRONG_IN_A_SCHEDULE[field][0]})


def test_the_name_of_a_batch_is_a_real_text(firm: Firm) -> None:
    lazy: Any = SimpleLazyObject(lambda: "May")
    with pytest.raises(ArgumentsInvalid, match=r"^name: must be a string"):
        enqueue_batch([GOOD], name=lazy, firm=firm)


def test_a_message_quotes_an_unknown_name_in_part(firm: Firm) -> None:
    for name in ("x" * 1_000_000, "no\ud800op", "no\x00op"):
        with pytest.raises(UnknownJobType) as refused:
            enqueue(name, firm=firm)
        assert len(str(refused.value).encode()) < 1_000
    with pytest.raises(ArgumentsInvalid) as unknown:
        pause(firm=firm, reason="away", job_type="x" * 1_000_000)
    assert len(str(unknown.value)) < 1_000


def test_times_of_every_offset_that_python_knows(firm: Firm) -> None:
    far_east = datetime(2030, 1, 2, tzinfo=timezone(timedelta(hours=23, minutes=59)))
    waiting = enqueue("noop", firm=firm, at=far_east).job_id
    edit(waiting, scheduled_at=far_east + timedelta(days=1))
    stop = pause(firm=firm, reason="away", until=far_east)
    assert rows(JobQueue)[0].scheduled_at == datetime(2030, 1, 2, 0, 1, tzinfo=UTC)
    assert stop.until == datetime(2030, 1, 1, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("call", "twin"),
    [
        (lambda: enqueue("noop"), "aenqueue"),
        (lambda: enqueue_many([GOOD]), "aenqueue_many"),
        (lambda: enqueue_chain([GOOD]), "aenqueue_chain"),
        (lambda: enqueue_batch([GOOD]), "aenqueue_batch"),
    ],
    ids=["one", "many", "chain", "batch"],
)
def test_in_a_coroutine_the_call_for_coroutines_is_named(
    call: Callable[[], object], twin: str
) -> None:
    async def view() -> object:
        return call()

    with pytest.raises(WrongPlace, match=rf"block the event loop: use await {twin}\(…\)$"):
        asyncio.run(view())


def test_a_notebook_that_may_query_in_its_event_loop_may_enqueue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def cell() -> object:
        return enqueue("no.such.type")

    async def last_cell() -> object:
        try:
            return await cell()
        finally:
            # An event loop has a connection of its own.
            connection.close()

    with pytest.raises(WrongPlace):
        asyncio.run(cell())
    # The variable with which Django allows it.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    with pytest.raises(UnknownJobType):
        asyncio.run(last_cell())
