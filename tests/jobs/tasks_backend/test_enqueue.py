"""Calls of tasks become jobs, in the caller's transaction, with the options of the task."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings

from jobs import registry
from jobs.engine.clock import database_now
from jobs.errors import PayloadInvalid
from jobs.operations.schedules import create_schedule
from jobs.payload_validator import SECRET_KEYS
from jobs.queue import enqueue
from jobs.states import Priority, Status
from jobs.tasks_backend import MailroomBackend, MailroomTask, types
from jobs.tasks_backend.calls import job_priority
from jobs.testing import assert_enqueued, drain, enqueued, frozen_time, run_job, run_schedules
from tenants.errors import MissingTenant
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.jobs.tasks_backend import tasks
from tests.jobs.tasks_backend.framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    default_task_backend,
    task,
    task_backends,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-26")]


def test_the_backend_says_what_it_can():
    backend = task_backends["default"]
    assert isinstance(backend, MailroomBackend)
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority
    assert isinstance(tasks.noop, MailroomTask)


@pytest.mark.parametrize("name", ["renamed", "hidden"])
def test_a_task_that_no_worker_would_find_is_refused(firm, name):
    function = getattr(tasks, name)
    with pytest.raises(InvalidTask, match=f"would not find this task at {function.module_path}"):
        function.enqueue()
    assert enqueued() == []


@pytest.mark.parametrize("name", ["add", "add_async"])
def test_a_call_is_a_job_that_waits(firm, name):
    function = getattr(tasks, name)
    result = function.enqueue(1, second=2)
    (job,) = assert_enqueued(function.module_path, status="pending")
    assert result.id == str(job.job_id)
    assert (result.task, result.args, result.kwargs) == (function, [1], {"second": 2})
    assert (result.status, result.is_finished) == (TaskResultStatus.READY, False)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None,) * 3
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert result.enqueued_at == job.created_at
    assert (result.backend, job.firm_id) == ("default", firm.pk)
    assert tasks.seen == []


@pytest.mark.parametrize("name", ["add", "add_async"])
def test_coroutines_enqueue_as_well(name):
    function = getattr(tasks, name)
    result = async_to_sync(function.aenqueue)(1, second=2)
    assert result.status == TaskResultStatus.READY
    assert drain().counts == {"completed": 1}
    assert async_to_sync(function.aget_result)(result.id).return_value == 3


def test_arguments_are_stored_as_json():
    result = tasks.echo.enqueue((1, 2), raw=b"text")
    assert (result.args, result.kwargs) == ([[1, 2]], {"raw": "text"})
    assert_enqueued(payload={"args": [[1, 2]], "kwargs": {"raw": "text"}})


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        (object(), TypeError),
        (datetime(2026, 1, 1), TypeError),  # noqa: DTZ001 - the type is refused
        (b"\xff", ValueError),
        (float("nan"), PayloadInvalid),
        ("a\x00b", PayloadInvalid),
        ("x" * 300_000, PayloadInvalid),
    ],
    ids=["object", "time", "bytes", "nan", "nul", "large"],
)
def test_what_cannot_be_stored_is_refused(argument, error):
    with pytest.raises(error):
        tasks.echo.enqueue(argument)
    assert enqueued() == []


@pytest.mark.req("J-03")
def test_arguments_may_have_any_name():
    secrets = dict.fromkeys(SECRET_KEYS, "x")
    tasks.echo.enqueue(value=[{"deep": secrets}], **secrets)
    assert_enqueued(payload={"kwargs": secrets})
    with pytest.raises(PayloadInvalid, match="secrets"):
        enqueue("django_task", {"token": "x"})


@pytest.mark.parametrize("payload", [{}, {"module_path": ""}])
def test_a_call_by_path_names_its_function(payload):
    with pytest.raises(PayloadInvalid, match="module_path"):
        enqueue("django_task", payload)


def test_a_call_rolls_back_with_its_transaction():
    with transaction.atomic():
        tasks.noop.enqueue()
        assert_enqueued(tasks.noop.module_path)
        transaction.set_rollback(True)
    assert enqueued() == []


@pytest.mark.req("J-08")
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (-100, Priority.LOW),
        (-1, Priority.LOW),
        (0, Priority.NORMAL),
        (1, Priority.HIGH),
        (49, Priority.HIGH),
        (50, Priority.CRITICAL),
        (100, Priority.CRITICAL),
    ],
)
def test_priorities_fall_into_the_queues_four(theirs, ours):
    assert job_priority(theirs) == ours
    result = tasks.noop.using(priority=theirs).enqueue()
    assert default_task_backend.get_result(result.id).task.priority == theirs
    assert_enqueued(priority=ours)


def test_the_urgent_come_first():
    results = [function.enqueue() for function in (tasks.whenever, tasks.noop, tasks.urgent)]
    ran = [str(one.job_id) for one in drain().ran]
    assert ran == [result.id for result in reversed(results)]


@pytest.mark.req("J-06")
def test_a_deferred_task_waits_for_its_time():
    moment = database_now() + timedelta(hours=2)
    result = tasks.add.using(run_after=moment).enqueue(1)
    assert result.task.run_after == moment
    with frozen_time(moment - timedelta(seconds=1)) as clock:
        assert drain().ran == ()
        clock.tick(seconds=1)
        assert drain().counts == {"completed": 1}
    result.refresh()
    assert result.task.run_after == moment
    assert default_task_backend.get_result(result.id).task.run_after == moment


def test_the_firm_in_scope_owns_the_job(firm: Firm, other_firm: Firm):
    with firm_scope(other_firm):
        tasks.noop.enqueue()
    assert_enqueued(tasks.noop.module_path, firm=other_firm)
    with pytest.raises(MissingTenant, match=r"several firms: call it inside `with firm_scope"):
        tasks.noop.enqueue()


def test_each_task_is_a_job_type_in_the_queue_it_names():
    urgent = registry.get("tests.jobs.tasks_backend.tasks.urgent")
    assert (urgent.queue, urgent.priority) == ("urgent", Priority.CRITICAL)
    assert registry.get("tests.jobs.tasks_backend.tasks.fail_until").retry.max_attempts == 3
    assert registry.get("tests.jobs.tasks_backend.tasks.noop").queue == "default"


def test_a_call_for_another_queue_is_of_a_type_of_that_queue(job_types):
    name = "tests.jobs.tasks_backend.tasks.add@evening"
    result = tasks.add.using(queue_name="evening").enqueue(1)
    (job,) = assert_enqueued(name)
    assert registry.get(name).queue == "evening"
    assert name in registry.types_in_queue("evening")
    # Another process does not know the type, because it has not seen that call.
    del job_types[name]
    assert name in registry.types_in_queue("evening")
    assert registry.get(name).queue == "evening"
    assert drain().counts == {"completed": 1}
    result.refresh()
    assert (result.return_value, result.task.queue_name) == (1, "evening")
    assert job.job_type == name


def test_a_task_is_found_by_the_name_of_its_type_before_anything_imported_it(job_types):
    for name in [name for name in job_types if name.startswith("tests.jobs.tasks_backend")]:
        del job_types[name]
    assert registry.get(tasks.fail_until.module_path).retry.max_attempts == 3
    for other in ("tests.jobs.tasks_backend.tasks.not_a_task", "os.path.join", "tests.nowhere.x"):
        assert registry.find(other) is None


def test_a_long_path_shares_a_type(monkeypatch):
    monkeypatch.setattr("jobs.tasks_backend.types.MAX_TYPE_NAME_LENGTH", 40)
    result = tasks.add.using(queue_name="morning").enqueue(1)
    assert_enqueued("django_task")
    assert drain().counts == {"completed": 1}
    result.refresh()
    assert result.return_value == 1


def test_a_task_can_be_enqueued_by_its_type_with_its_arguments_alone(firm):
    job = run_job(tasks.add.module_path, {"args": [1], "kwargs": {"second": 4}}, firm=firm)
    assert default_task_backend.get_result(str(job.pk)).return_value == 5
    assert (job.priority, job.max_attempts) == (Priority.NORMAL, 1)


@pytest.mark.req("S-01")
def test_a_task_can_be_scheduled_by_its_type_with_its_arguments_alone(firm):
    with frozen_time("2026-03-01T06:59:30Z") as clock:
        create_schedule(
            "Add", tasks.add.module_path, firm=firm, cron="0 7 * * *", payload={"args": [1]}
        )
        clock.tick(seconds=30)
        assert run_schedules(tasks.add.module_path) == 1
        assert drain().counts == {"completed": 1}
    assert tasks.seen == [(1, 0)]


BACKEND = {"BACKEND": "jobs.tasks_backend.MailroomBackend"}


def function_of_one_argument(other: Any) -> None:
    """A function whose only argument is not called `context`."""


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 101},
        {"priority": -101},
        {"priority": 1.5},
        {"queue_name": "unknown"},
        {"takes_context": True},
        {"max_attempts": 0},
        {"max_attempts": 40_000},
        {"max_attempts": "three"},
        {"max_attempts": True},
    ],
    ids=str,
)
@override_settings(TASKS={"default": {**BACKEND, "QUEUES": ["default", "urgent"]}})
def test_what_cannot_run_here_is_refused_at_its_declaration(options):
    with pytest.raises(InvalidTask):
        task(**options)(function_of_one_argument)


@pytest.mark.parametrize("queue", ["", "q" * 101, "two\nlines", "\x00"], ids=ascii)
def test_a_queue_that_no_type_can_be_in_is_refused(queue: str) -> None:
    with pytest.raises(InvalidTask, match="queue_name must have 1 to 100 printable characters"):
        task(queue_name=queue)(function_of_one_argument)


def test_a_function_inside_another_is_refused():
    def inner() -> None:
        pass

    with pytest.raises(InvalidTask):
        task(inner)


def test_a_naive_time_is_refused():
    with pytest.raises(InvalidTask, match="aware"):
        tasks.noop.using(run_after=datetime(2026, 1, 1))  # noqa: DTZ001 - no time zone


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("2026-01-01T00:00:00Z", "must be a datetime"),
        (date(2026, 1, 1), "must be a datetime"),
        (datetime(9999, 1, 1, tzinfo=UTC), "must lie in a year from 1970 to 9000"),
    ],
)
def test_a_time_to_run_after_that_is_none_is_refused_by_its_name(
    firm: Firm, moment: Any, told: str
) -> None:
    with pytest.raises(InvalidTask, match=rf"^run_after {told}\.$"):
        tasks.noop.using(run_after=moment)


def test_a_task_is_checked_again_when_it_is_enqueued():
    with override_settings(TASKS={"default": {**BACKEND, "QUEUES": ["default"]}}):
        for enqueue_it in (tasks.urgent.enqueue, async_to_sync(tasks.urgent.aenqueue)):
            with pytest.raises(InvalidTask, match="urgent"):
                enqueue_it()
    assert enqueued() == []


class Counting(MailroomBackend):
    """A project's own backend, derived from this one."""


@pytest.mark.parametrize(
    ("backend", "is_ours"), [(Counting, True), (dict, False), ("no.such.Backend", False)]
)
def test_a_backend_that_derives_from_this_one_is_this_one(
    backend: type | str, is_ours: bool
) -> None:
    path = backend if isinstance(backend, str) else f"{backend.__module__}.{backend.__qualname__}"
    with override_settings(TASKS={"default": {"BACKEND": path, "QUEUES": ["own"]}}):
        assert ("own" in registry.queue_names()) is is_ours


def test_a_backend_that_cannot_be_imported_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_early(path: str) -> object:
        raise ImproperlyConfigured("its own settings come later")

    path = f"{Counting.__module__}.{Counting.__qualname__}"
    with override_settings(TASKS={"default": {"BACKEND": path, "QUEUES": ["own"]}}):
        with monkeypatch.context() as early:
            early.setattr(types, "import_string", too_early)
            assert "own" not in registry.queue_names()
        assert "own" in registry.queue_names()


def test_a_task_of_another_backend_can_be_sent_here():
    backends = {
        "default": {"BACKEND": "django_tasks.backends.immediate.ImmediateBackend"},
        "queue": BACKEND,
    }
    with override_settings(TASKS=backends):
        plain = task(tasks.echo.func)
        assert not isinstance(plain, MailroomTask)
        result = plain.using(backend="queue").enqueue("here")
        assert result.backend == "queue"
        (job,) = assert_enqueued(payload={"backend": "queue"}, max_attempts=1)
        assert job.status == Status.PENDING


def test_a_job_of_another_type_is_no_task(firm):
    job_id = enqueue("noop", firm=firm).job_id
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(str(job_id))
