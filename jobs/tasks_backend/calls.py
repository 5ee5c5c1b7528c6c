"""Converts a call of a task function to a job's payload, and back."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.utils.module_loading import import_string

from jobs.registry import JobPayload
from jobs.states import Priority
from jobs.tasks_backend.framework import (
    InvalidTask,
    InvalidTaskBackend,
    Task,
    normalize_json,
)

TASK_JOB_TYPE = "django_task"

# The task is not in this code, or the settings no longer allow it.
UNUSABLE = (ImportError, InvalidTask, InvalidTaskBackend)

# From here on a task is critical; above zero it is high.
CRITICAL_FROM = 50


class TaskPayload(JobPayload):
    """The function to call, its arguments, and the settings of its task."""

    free_form: ClassVar[frozenset[str]] = frozenset({"args", "kwargs"})

    module_path: str
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    queue_name: str
    priority: int
    run_after: datetime | None


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


def task_of(payload: TaskPayload) -> Task[..., Any]:
    """Return the task as it was when the call was enqueued.

    Raises:
        ImportError: this code has no task of that name.
        InvalidTask: its queue is no longer among the backend's (InvalidTaskBackend: nor is that).
    """
    task = import_string(payload.module_path)
    if not isinstance(task, Task):
        raise ImportError(f"{payload.module_path} is not a task")  # noqa: TRY004 - the name is wrong
    return task.using(
        priority=payload.priority,
        queue_name=payload.queue_name,
        run_after=payload.run_after,
        backend=payload.backend,
    )


def job_priority(priority: int) -> Priority:
    """Return the job's priority for a task's, which runs from -100 (last) to 100 (first)."""
    if priority >= CRITICAL_FROM:
        return Priority.CRITICAL
    if priority > 0:
        return Priority.HIGH
    return Priority.NORMAL if priority == 0 else Priority.LOW
