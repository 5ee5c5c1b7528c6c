"""The backend that `TASKS` names."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from django.utils.module_loading import import_string

from jobs.engine.enqueue import enqueue
from jobs.engine.job_arguments import MAX_ATTEMPTS, moment_faults, number_faults
from jobs.registry.declaration import MAX_QUEUE_NAME_LENGTH, is_name
from jobs.tasks_backend.calls import (
    find_result,
    job_priority,
    payload_of,
    result_of,
)
from jobs.tasks_backend.framework import (
    BaseTaskBackend,
    GenericTask,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from jobs.tasks_backend.types import DEFAULT_MAX_ATTEMPTS, max_attempts_of, type_of
from tenants.errors import MissingTenant

# `enqueue()` of a task takes only the task's own arguments, so the firm must come from the scope.
ENTER_THE_FIRM = "there are several firms: call it inside `with firm_scope(firm):`."
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MailroomTask(GenericTask[P, T]):
    """A task that may be tried more than once: `@task(max_attempts=5)`.

    The default is one attempt, as with Django's own backends, because tasks written for those may
    not be safe to repeat. The death of a worker uses up an attempt too.
    """

    max_attempts: int = DEFAULT_MAX_ATTEMPTS


class MailroomBackend(BaseTaskBackend):
    """Stores each call as a job of the firm in scope, in the caller's transaction.

    Each task is a job type of its own, in the queue that the task names.
    """

    task_class = MailroomTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task[..., Any]) -> None:
        """Refuse a task that could not run here.

        Raises:
            InvalidTask: the task could not run; the text says why.
        """
        faults = [] if task.run_after is None else moment_faults("run_after", task.run_after)
        # Django refuses a time without a zone itself, but fails on a value that is no time at all.
        if faults and faults[0].code != "naive_time":
            raise InvalidTask(f"run_after {faults[0].message}.")
        super().validate_task(task)
        if number_faults("max_attempts", max_attempts_of(task), 1, MAX_ATTEMPTS):
            raise InvalidTask(f"max_attempts must be a whole number from 1 to {MAX_ATTEMPTS}.")
        if not is_name(task.queue_name, MAX_QUEUE_NAME_LENGTH):
            most = MAX_QUEUE_NAME_LENGTH
            raise InvalidTask(f"queue_name must have 1 to {most} printable characters.")
        type_of(task)

    def enqueue(self, task: Task[P, T], args: Any, kwargs: Any) -> TaskResult[T]:
        """Store the call; it rolls back with the caller's transaction.

        Raises:
            InvalidTask: the task cannot run here, or no worker would find it.
            TypeError: an argument cannot be JSON (ValueError: bytes that are not text).
            PayloadInvalid: the arguments are too large, too deep, or hold NaN or NUL.
            MissingTenant: no firm in scope, and there are several.
        """
        self.validate_task(task)
        _require_own_name(task)
        payload = payload_of(task, args, kwargs)
        try:
            stored = enqueue(
                type_of(task),
                payload,
                at=task.run_after,
                priority=job_priority(task.priority),
                max_attempts=max_attempts_of(task),
            )
        except MissingTenant:
            raise MissingTenant("enqueue", ENTER_THE_FIRM) from None
        result = result_of(task, stored.job)
        task_enqueued.send_robust(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult[Any]:
        """Return the state of the task enqueued under this id, within the scope in force.

        Raises:
            TaskResultDoesNotExist: never stored, purged, of another backend, or malformed.
        """
        result = find_result(result_id)
        if result.backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return result


def _require_own_name(task: Task[..., Any]) -> None:
    """Check that the stored path leads to this task.

    This is checked on enqueue, because when `@task` runs the name is not bound to the task yet.
    """
    with suppress(ImportError):
        found = import_string(task.module_path)
        if isinstance(found, Task) and found.func is task.func:
            return
    raise InvalidTask(
        f"a worker would not find this task at {task.module_path}: give the task the name of its "
        f"function, {task.func.__name__}"
    )
