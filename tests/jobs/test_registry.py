"""Declaring and finding job types."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs import registry
from jobs.errors import UnknownJobType
from jobs.registry import JobPayload, JobType, Scheduled, job
from jobs.retry import RetryPolicy
from jobs.states import Category


class GreetPayload(JobPayload):
    name: str


def declare(name: str = "test.greet", **options: Any) -> JobType:
    @job(name, **{"category": "notifications", "payload": GreetPayload, **options})
    def greet(payload: GreetPayload, ctx: Any) -> None:
        pass

    return registry.get(name)


@pytest.mark.req("J-05")
def test_one_decorator_gives_everything_the_queue_knows(job_types):
    retry = RetryPolicy(max_attempts=5)
    declared = declare(
        version="2.0",
        upcasters={"1.0": dict},
        retry=retry,
        timeout_seconds=60,
        lock_key=lambda payload: payload.name,
        lock_limit=3,
        idempotency_key=lambda payload: payload.name,
        once_only=True,
        dead_letter=False,
        queue="slow",
        priority=3,
    )
    assert declared.category is Category.NOTIFICATIONS
    assert declared.payload_model is GreetPayload
    assert declared.retry is retry
    assert (declared.version, declared.timeout_seconds, declared.lock_limit) == ("2.0", 60, 3)
    assert (declared.once_only, declared.dead_letter) == (True, False)
    assert (declared.queue, declared.priority) == ("slow", 3)
    assert "slow" in registry.queue_names()
    assert "test.greet" in registry.types_in_queue("slow")
    assert registry.find("test.greet") is declared
    assert declared in registry.all_types()


@pytest.mark.req("J-05")
def test_the_decorated_function_stays_what_it_was(job_types):
    def greet(payload: GreetPayload, ctx: Any) -> str:
        return "hello"

    assert job("test.greet", category="sync", payload=GreetPayload)(greet) is greet


@pytest.mark.req("J-05", "J-14")
def test_the_defaults(job_types):
    declared = declare()
    assert declared.version == "1.0"
    assert declared.retry == RetryPolicy()
    assert declared.timeout_seconds == 1800
    assert declared.lock_limit == 1
    assert not declared.once_only
    assert declared.dead_letter


@pytest.mark.req("J-05")
def test_a_name_belongs_to_one_handler(job_types):
    declare()

    def other(payload: GreetPayload, ctx: Any) -> None:
        pass

    with pytest.raises(ValueError, match=r"test\.greet is declared twice: .*declare"):
        job("test.greet", category="sync", payload=GreetPayload)(other)


@pytest.mark.req("J-05")
def test_importing_the_same_handler_again_is_harmless(job_types):
    declare()
    assert declare(timeout_seconds=5).timeout_seconds == 5


@pytest.mark.req("J-05")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": ""}, "1 to 100 printable characters"),
        ({"name": "x" * 101}, "1 to 100 printable characters"),
        ({"name": "a\ud800"}, "1 to 100 printable characters"),
        ({"category": "gardening"}, "gardening"),
        ({"payload": dict}, "must be a subclass of JobPayload, or JobPayload itself if"),
        ({"payload": GreetPayload(name="Ada")}, "must be a subclass of JobPayload"),
        (
            {"version": "1.0", "upcasters": {"1.0": dict}},
            "upcaster must not read the current version",
        ),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds"),
        (
            {"timeout_seconds": 10**400},
            "timeout_seconds must be above 0 and at most 3,162,240,000 seconds",
        ),
        ({"lock_limit": 0}, "^test.greet: lock_limit must be from 1 to 32,767"),
        ({"lock_limit": 0}, "lock_limit"),
        ({"lock_counted_by": "key"}, "lock_counted_by must be firm or all_firms"),
        ({"queue": ""}, "queue must have 1 to 100"),
        ({"priority": 4}, "priority must be from 0 to 3"),
        ({"schedule": "* * * * *"}, "^test.greet: schedule must be a Scheduled, not str$"),
        ({"name": 5}, "the name of a job type must be a string, not int"),
        ({"category": "gardening"}, "^test.greet: category must be one of ingestion, sync, .*"),
        ({"retry": 3}, "^test.greet: retry must be a RetryPolicy, not int$"),
        ({"retry": RetryPolicy}, "^test.greet: retry must be a RetryPolicy, not the class Retry"),
        ({"lock_key": "x"}, r"^test.greet: lock_key must be a function of the payload, not str; "),
        ({"limit_key": "x"}, r"a fixed key goes to enqueue\(limit_key=…\)$"),
        ({"idempotency_key": 7}, r"idempotency_key must be a function of the payload, not int; "),
        ({"timeout_seconds": "60"}, "^test.greet: timeout_seconds must be a number of seconds"),
        ({"timeout_seconds": True}, "timeout_seconds must be a number of seconds, not bool"),
        ({"timeout_seconds": None}, "timeout_seconds must be a number of seconds, not NoneType"),
        ({"lock_limit": 32_768}, "^test.greet: lock_limit must be from 1 to 32,767$"),
        ({"version": "1" * 21}, "^test.greet: version must have 1 to 20 printable characters$"),
        ({"queue": "a\x00"}, "^test.greet: queue must have 1 to 100 printable characters$"),
        ({"lock_limit": 2.0}, "^test.greet: lock_limit must be a whole number, not float$"),
        ({"limit_units": "3"}, "limit_units must be a whole number or a function of the payload"),
        ({"limit_units": True}, "limit_units must be a whole number or a function of the payload"),
        ({"unique_for": "1h"}, "unique_for must be a timedelta or a number of seconds, not str"),
        ({"unique_for": 0}, "^test.greet: unique_for must be above 0 and at most "),
        ({"unique_for": timedelta(0)}, "^test.greet: unique_for must be above 0 and at most "),
        ({"unique_for": float("nan")}, "^test.greet: unique_for must be above 0 and at most "),
        ({"retention": 30}, "^test.greet: retention must be a timedelta, not int$"),
        ({"version": 2}, "^test.greet: version must be a string such as .*, not int$"),
        (
            {"version": "2.0", "upcasters": {"1.0": "dict"}},
            "^test.greet: the upcaster of '1.0' must be a function of the older payload, not str$",
        ),
        ({"upcasters": [dict]}, "^test.greet: upcasters must be a dict of functions, .* not list$"),
        ({"breaker": 0.5}, "^test.greet: breaker must be a Breaker, not float$"),
        ({"queue": None}, "^test.greet: queue must be a string, not NoneType$"),
        ({"priority": "high"}, "^test.greet: priority must be a whole number, not str$"),
        ({"once_only": "no"}, "^test.greet: once_only must be True or False, not str$"),
        ({"retrys": 3}, "^test.greet: @job has no option 'retrys'; did you mean retry[?]$"),
        (
            {"qqqqqqq": 3},
            "^test.greet: @job has no option 'qqqqqqq'; it has breaker, dead_letter, ",
        ),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(job_types, options, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        declare(**options)
    assert "test.greet" not in job_types


@pytest.mark.req("J-05")
@pytest.mark.parametrize(
    ("timetable", "complaint"),
    [
        ({}, "either cron or every_seconds"),
        ({"cron": "0 25 * * *"}, "cron: .*hour"),
        ({"cron": "@daily"}, "cron: must have 5 fields"),
        ({"cron": "0 0 30 2 *"}, "cron: .*day-of-month"),
        ({"cron": "0 8 * * *", "time_zone": "Vienna"}, "time_zone: 'Vienna' is no time zone"),
        ({"every_seconds": 0}, "every_seconds: must be from 1"),
        ({"every_seconds": 0.5}, "every_seconds must be a whole number"),
        ({"every_seconds": 60, "time_zone": "Europe/Vienna"}, "time_zone: is for cron"),
        ({"cron": 5}, "cron must be a string"),
    ],
)
def test_a_timetable_that_never_comes_is_refused_where_it_is_written(timetable, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        Scheduled(**timetable)


@pytest.mark.req("J-05")
@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        ({}, "test.greet: the payload of its schedule: name: Field required"),
        ({"name": 5, "age": 1}, "name: Input should be a valid string; age: Extra inputs"),
        ({"name": GreetPayload}, "must be an object of JSON"),
        (["name"], "must be an object of JSON"),
    ],
)
def test_a_schedule_whose_payload_the_type_refuses_is_refused(job_types, payload, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        declare(schedule=Scheduled(every_seconds=60, payload=payload))
    assert "test.greet" not in job_types


@pytest.mark.req("J-05")
def test_a_schedule_may_have_a_payload_of_a_version_that_an_upcaster_reads(job_types):
    schedule = Scheduled(every_seconds=60, payload={"version": "1.0", "greet": "Ada"})
    declared = declare(schedule=schedule, version="2.0", upcasters={"1.0": dict})
    assert declared.schedule is schedule


@pytest.mark.req("J-05")
@pytest.mark.parametrize(
    "handler",
    [
        lambda payload: None,
        lambda payload, ctx, more: None,
        lambda payload, *, ctx: None,
        lambda ctx, payload: None,
    ],
)
def test_a_function_that_cannot_be_called_with_payload_and_context_is_refused(job_types, handler):
    with pytest.raises(TypeError, match=r"test\.greet: .*lambda.*must take \(payload, ctx\): "):
        job("test.greet", category="sync", payload=GreetPayload)(handler)
    assert "test.greet" not in job_types


async def yields_slowly(payload: GreetPayload, ctx: Any) -> Any:
    yield 1


def yields(payload: GreetPayload, ctx: Any) -> Any:
    yield 1


@pytest.mark.req("J-05")
@pytest.mark.parametrize("handler", [yields, yields_slowly])
def test_a_generator_is_refused_because_it_would_never_run(job_types, handler):
    complaint = rf"^test.greet: .*\.{handler.__name__} is a generator and would never run"
    with pytest.raises(TypeError, match=complaint):
        job("test.greet", category="sync", payload=GreetPayload)(handler)
    assert "test.greet" not in job_types


@pytest.mark.req("J-05")
def test_what_is_no_function_is_refused(job_types):
    with pytest.raises(TypeError, match=r"^test.greet: @job decorates a function, not int$"):
        job("test.greet", category="sync", payload=GreetPayload)(5)  # type: ignore[type-var]
    assert "test.greet" not in job_types


@pytest.mark.req("J-12")
def test_a_typing_slip_is_met_with_a_suggestion(job_types):
    declare()
    assert registry.find("test.gret") is None
    with pytest.raises(UnknownJobType, match=r"did you mean test\.greet"):
        registry.get("test.gret")


@pytest.mark.req("J-12")
def test_a_name_like_no_other_gets_none_but_is_told_where_handlers_are_found():
    with pytest.raises(UnknownJobType) as caught:
        registry.get("qqqqqqqqqqqq")
    assert caught.value.errors[0]["message"] == (
        "No handler registered for job_type: qqqqqqqqqqqq; its function must be in"
        " `job_handlers.py` of an app in INSTALLED_APPS"
    )


@pytest.mark.req("J-04")
def test_a_type_reads_its_version_and_those_it_has_upcasters_for(job_types):
    declared = declare(version="3.0", upcasters={"1.0": dict, "2.0": dict})
    assert [declared.reads(version) for version in ("1.0", "2.0", "3.0", "4.0")] == [
        True, True, True, False,
    ]  # fmt: skip


@pytest.mark.req("J-05")
def test_the_handlers_of_every_installed_app_are_found():
    assert "noop" in [declared.name for declared in registry.all_types()]
