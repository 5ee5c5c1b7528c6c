"""A call of a task function: its job's payload, its run, its result."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.apps import apps
from django.utils.module_loading import import_string
from pydantic import ValidationError

from jobs import registry
from jobs.engine.job_wait import read_with_attempts
from jobs.engine.rescue import NOT_RUNNING, NOT_STARTED, STALE
from jobs.execution.context import JobContext
from jobs.execution.events import Event, subscribe
from jobs.models import Attempt, JobQueue
from jobs.registry import JobPayload
from jobs.states import IN_FLIGHT, AttemptEnd, Priority, Status
from jobs.tasks_backend.framework import (
    InvalidTask,
    InvalidTaskBackend,
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from tenants.scope import current_scope

# The type of calls stored by earlier versions, and of tasks whose path is too long for a type's name.
TASK_JOB_TYPE = "django_task"
QUEUE_MARK = "@"
# Every type whose jobs are calls of tasks, as far as this process knows.
TASK_TYPES = {TASK_JOB_TYPE}

# The task is not in this code, or the settings no longer allow it.
_UNUSABLE = (ImportError, InvalidTask, InvalidTaskBackend)

# From this priority on a task's job is critical; above zero it is high.
_CRITICAL_FROM = 50

_STATUSES = {
    Status.PENDING: TaskResultStatus.READY,
    Status.CLAIMED: TaskResultStatus.RUNNING,
    Status.PROCESSING: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.DLQ: TaskResultStatus.FAILED,
    Status.CANCELED: TaskResultStatus.FAILED,
}
_RETURN_VALUE = "return_value"

# Attempts that are not counted: these, and rescues with one of these errors.
_NOT_COUNTED = frozenset({AttemptEnd.SNOOZED, AttemptEnd.RELEASED})
_NO_DEATH = frozenset({NOT_STARTED.error_class, NOT_RUNNING.error_class})
# The classes behind the error names that the queue itself stores.
_QUEUE_ERRORS = {
    STALE.error_class: "jobs.errors.LeaseLost",
    "Cancel": "jobs.errors.Cancel",
}


class TaskPayload(JobPayload):
    """The function to call, its arguments, and the settings of its task.

    A setting that is left out is the one that the task declares; a path that is left out is the
    name of the job's type.
    """

    free_form: ClassVar[frozenset[str]] = frozenset({"args", "kwargs"})

    module_path: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    backend: str | None = None
    queue_name: str | None = None
    priority: int | None = None
    run_after: datetime | None = None


def payload_of(task: Task[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the payload of the job that makes this call.

    Raises:
        TypeError: an argument cannot be JSON (ValueError: bytes that are not text).
    """
    return {
        "module_path": task.module_path,
        "args": normalize_json(args),
        "kwargs": normalize_json(kwargs),
        "backend": task.backend,
        "queue_name": task.queue_name,
        "priority": task.priority,
        "run_after": task.run_after,
    }


def path_of_type(job_type: str) -> str:
    """Return the path of the function that calls of this type name."""
    return job_type.partition(QUEUE_MARK)[0]


def may_import(path: str) -> bool:
    """Say whether the function's module is imported already, or in a package of an installed app.

    Others are not imported, because a type's name or a payload in a request may be anything.
    """
    module = path.rpartition(".")[0]
    roots = {config.name.partition(".")[0] for config in apps.get_app_configs()}
    return module in sys.modules or module.partition(".")[0] in roots


def task_of(payload: TaskPayload, job_type: str) -> Task[..., Any]:
    """Return the task as it was when the call was enqueued.

    Raises:
        ImportError: this code has no task of that name.
        InvalidTask: the backend no longer lists the queue (InvalidTaskBackend: it is gone itself).
    """
    path = payload.module_path or path_of_type(job_type)
    if not may_import(path):
        raise ImportError(f"{path} is in no package of an installed app")
    task = import_string(path)
    if not isinstance(task, Task):
        raise ImportError(f"{path} is not a task")  # noqa: TRY004 - the name is wrong
    return task.using(
        priority=payload.priority,
        queue_name=payload.queue_name,
        run_after=payload.run_after,
        backend=payload.backend,
    )


def job_priority(priority: int) -> Priority:
    """Return the job's priority for a task's, which ranges from -100 (last) to 100 (first)."""
    if priority >= _CRITICAL_FROM:
        return Priority.CRITICAL
    if priority > 0:
        return Priority.HIGH
    return Priority.NORMAL if priority == 0 else Priority.LOW


def run_task(payload: TaskPayload, ctx: JobContext) -> dict[str, Any]:
    """Call the function and return what it returned, as JSON.

    Raises:
        ImportError: this code has no such task.
        TypeError: its return value cannot be JSON.
    """
    task = task_of(payload, ctx.job_type)
    result = find_result(ctx.job_id)
    task_started.send_robust(_sender(task), task_result=result)
    context = [TaskContext(task_result=result)] if task.takes_context else []
    returned = task.call(*context, *payload.args, **payload.kwargs)
    return {_RETURN_VALUE: normalize_json(returned)}


class TaskFailed(Exception):
    """Stands for the error that a task raised, with its class and traceback as stored."""

    def __init__(self, error: TaskError) -> None:
        super().__init__(f"{error.exception_class_path}\n{error.traceback}")


def send_task_signals() -> None:
    """Begin to send `task_finished` whenever a task's job was settled."""
    subscribe(Event.ATTEMPT_FINISHED, _send_finished, job_types=TASK_TYPES)


def _send_finished(fields: Mapping[str, Any]) -> None:
    # The status is unknown if the outcome was stored but the database's answer was lost.
    if fields["status"] == Status.PENDING:
        return
    result = find_result(fields["job_id"])
    if not result.is_finished:
        return
    try:
        _raise_error_of(result)
    except TaskFailed:
        # The framework's own receiver logs the exception that is being handled.
        task_finished.send_robust(_sender(result.task), task_result=result)
    else:
        task_finished.send_robust(_sender(result.task), task_result=result)


def _raise_error_of(result: TaskResult[Any]) -> None:
    if result.errors:
        raise TaskFailed(result.errors[-1])


def _sender(task: Task[..., Any]) -> type:
    return type(task.get_backend())


def find_result(result_id: str | UUID) -> TaskResult[Any]:
    """Return the state of the task whose job has this id, within the scope in force.

    Raises:
        TaskResultDoesNotExist: there is none in scope, its payload is not a call, or its function
            is gone from this code.
    """
    try:
        job, attempts = read_with_attempts(UUID(str(result_id)))
    except (ValueError, JobQueue.DoesNotExist):
        raise TaskResultDoesNotExist(result_id) from None
    scope = current_scope()
    declared = registry.find(job.job_type)
    is_task = declared is not None and issubclass(declared.payload_model, TaskPayload)
    if not is_task or (scope is not None and not scope.allows(job.firm_id)):
        raise TaskResultDoesNotExist(result_id)
    try:
        payload = TaskPayload.model_validate_json(json.dumps(job.payload))
        task = task_of(payload, job.job_type)
    except (*_UNUSABLE, ValidationError, TypeError, RecursionError) as error:
        raise TaskResultDoesNotExist(result_id) from error
    return result_of(task, job, attempts)


def result_of(
    task: Task[..., Any], job: JobQueue, attempts: Sequence[Attempt] = ()
) -> TaskResult[Any]:
    """Return the task's result, from the job's row and history."""
    status = Status(job.status)
    tried = [attempt for attempt in attempts if _counts(attempt)]
    started = _starts(job, tried)
    result: TaskResult[Any] = TaskResult(
        task=task,
        id=str(job.job_id),
        status=_STATUSES[status],
        enqueued_at=job.created_at,
        started_at=min(started, default=None),
        finished_at=job.completed_at,
        last_attempted_at=max(started, default=None),
        args=job.payload.get("args", []),
        kwargs=job.payload.get("kwargs", {}),
        backend=task.backend,
        errors=[_error(attempt) for attempt in tried],
        worker_ids=list(_workers(job, tried)),
    )
    if status is Status.COMPLETED:
        # As Django does it, because the field is not an argument, and the class is frozen.
        object.__setattr__(result, "_return_value", (job.result or {})[_RETURN_VALUE])
    return result


def _counts(attempt: Attempt) -> bool:
    """Say whether the attempt was used, and not given back."""
    if attempt.end == AttemptEnd.RESCUED:
        return attempt.error_class not in _NO_DEATH
    if attempt.end == AttemptEnd.CANCELED:
        # A worker may give back the claim of a canceled job before it starts.
        return attempt.started_at is not None
    return attempt.end not in _NOT_COUNTED


def _starts(job: JobQueue, tried: Iterable[Attempt]) -> list[datetime]:
    """Return the known start times of attempts."""
    starts = [attempt.started_at for attempt in tried if attempt.started_at is not None]
    latest = job.started_at
    if latest is None and job.status in IN_FLIGHT:
        # The start is written to the row a moment later; until then the time of the claim is used.
        latest = job.claimed_at
    if latest is None:
        return starts
    # The history is written after the row, and reckons a start from that later time; but no attempt
    # started after the row's, which is the last one.
    return [*(min(start, latest) for start in starts), latest]


def _workers(job: JobQueue, tried: Iterable[Attempt]) -> Iterable[str]:
    """Yield the worker of each attempt; for a running or completed one it is in the job's row."""
    for attempt in tried:
        yield str(attempt.worker_id)
    if job.status in IN_FLIGHT or job.status == Status.COMPLETED:
        yield str(job.worker_id)


def _error(attempt: Attempt) -> TaskError:
    return TaskError(
        exception_class_path=_importable(attempt.error_class),
        traceback=attempt.traceback or attempt.message,
    )


def _importable(error_class: str) -> str:
    if "." in error_class:
        return error_class
    if hasattr(builtins, error_class):
        return f"builtins.{error_class}"
    return _QUEUE_ERRORS.get(error_class, "jobs.errors.JobError")
