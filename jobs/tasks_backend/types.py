"""The job types of tasks: one that calls any task, and one for each task.

A task's own type is named by the path of its function, in the task's queue. A call that
`using(queue_name=…)` sends to another queue has the type `path@queue`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.module_loading import autodiscover_modules, import_string
from pydantic import Field

from jobs import registry
from jobs.execution.context import JobContext
from jobs.registry import JobType, job
from jobs.registry.declaration import MAX_TYPE_NAME_LENGTH
from jobs.retry import RetryPolicy
from jobs.states import Category
from jobs.tasks_backend.calls import (
    QUEUE_MARK,
    TASK_JOB_TYPE,
    TASK_TYPES,
    TaskPayload,
    job_priority,
    may_import,
    run_task,
)
from jobs.tasks_backend.framework import Task

BACKEND_PATHS = ("jobs.tasks_backend.MailroomBackend", "jobs.tasks_backend.backend.MailroomBackend")
TASKS_MODULE = "tasks"
DEFAULT_MAX_ATTEMPTS = 1


def max_attempts_of(task: Task[..., Any]) -> int:
    """Return how often a call of the task is tried.

    A task that was declared for another backend and sent here by `using(backend=…)` has no such
    setting.
    """
    given: int = getattr(task, "max_attempts", DEFAULT_MAX_ATTEMPTS)
    return given


def type_of(task: Task[..., Any]) -> str:
    """Return the job type of the task's calls, and declare it if needed.

    A path that is too long for a type's name shares the type `django_task`.
    """
    path = task.module_path
    if not registry.is_declared(path) and not _declare(path, task):
        return TASK_JOB_TYPE
    if registry.get(path).queue == task.queue_name:
        return path
    name = f"{path}{QUEUE_MARK}{task.queue_name}"
    return name if registry.is_declared(name) or _declare(name, task) else TASK_JOB_TYPE


def _declare(name: str, task: Task[..., Any]) -> bool:
    if len(name) > MAX_TYPE_NAME_LENGTH:
        return False
    registry.declare(
        JobType(
            name=name,
            category=Category.ORCHESTRATION,
            payload_model=TaskPayload,
            handler=run_task,
            retry=RetryPolicy(max_attempts=max_attempts_of(task)),
            queue=task.queue_name,
            priority=job_priority(task.priority),
        )
    )
    TASK_TYPES.add(name)
    return True


@dataclass(frozen=True)
class TaskTypes:
    """Finds the types of tasks for the registry; all instances are equal."""

    def find(self, name: str) -> JobType | None:
        """Return the type of a task whose module was not imported yet, or that has moved."""
        path, _, queue = name.partition(QUEUE_MARK)
        if not may_import(path):
            return None
        try:
            task = import_string(path)
            if not isinstance(task, Task) or not _is_ours(task.backend):
                return None
            called = task.using(queue_name=queue) if queue else task
            found = type_of(called)
            if path != task.module_path and _declare(name, called):
                # The function has moved, and its old module still imports it: calls that were
                # stored before name the old path.
                found = name
        except ImportError:
            return None
        except Exception as error:  # noqa: BLE001 - importing a module runs any code
            problem = type(error).__name__
            logging.getLogger("jobs").warning("job type %s cannot be imported: %s", name, problem)
            return None
        return registry.get(found) if found == name else None

    def discover(self) -> None:
        """Import the module `tasks` of each installed app, if `TASKS` names this backend."""
        if any(map(_is_ours, _backends())):
            autodiscover_modules(TASKS_MODULE)

    def queues(self) -> set[str]:
        """Return the queues that `TASKS` lists for this backend."""
        return {
            queue
            for alias, options in _backends().items()
            if _is_ours(alias)
            for queue in options.get("QUEUES", ())
        }

    def types_sent_to(self, queue: str) -> list[str]:
        """Return the names of the types of calls that are sent to this queue from their own."""
        return [
            f"{declared.name}{QUEUE_MARK}{queue}"
            for declared in registry.all_types()
            if declared.name in TASK_TYPES - {TASK_JOB_TYPE}
            and QUEUE_MARK not in declared.name
            and declared.queue != queue
            and len(declared.name) + len(queue) < MAX_TYPE_NAME_LENGTH
        ]


def _is_ours(alias: str) -> bool:
    path = _backends().get(alias, {}).get("BACKEND", "")
    return path in BACKEND_PATHS or _is_derived(path)


def _is_derived(path: str) -> bool:
    """Say whether a project's own backend derives from this one."""
    try:
        bases = import_string(path).__mro__
    except Exception:  # noqa: BLE001 - importing a module runs any code
        return False
    return any(f"{one.__module__}.{one.__qualname__}" in BACKEND_PATHS for one in bases)


def _backends() -> dict[str, Any]:
    return getattr(settings, "TASKS", {})


class TaskByPathPayload(TaskPayload):
    """A call whose type does not say which function it calls."""

    module_path: str = Field(min_length=1)


@job(
    TASK_JOB_TYPE,
    category=Category.ORCHESTRATION,
    payload=TaskByPathPayload,
    retry=RetryPolicy(max_attempts=DEFAULT_MAX_ATTEMPTS),
)
def django_task(payload: TaskByPathPayload, ctx: JobContext) -> dict[str, Any]:
    """Call a function of `django.tasks` that its payload names."""
    return run_task(payload, ctx)
