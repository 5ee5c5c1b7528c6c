"""Converts the job of a task to a TaskResult."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from jobs.engine.job_wait import read_with_attempts
from jobs.engine.rescue import NOT_STARTED, STALE, STALE_QUARANTINED
from jobs.models import Attempt, JobQueue
from jobs.states import IN_FLIGHT, AttemptEnd, Status
from jobs.tasks_backend.calls import TASK_JOB_TYPE, UNUSABLE, TaskPayload, task_of
from jobs.tasks_backend.framework import (
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from tenants.scope import current_scope

STATUSES = {
    Status.PENDING: TaskResultStatus.READY,
    Status.CLAIMED: TaskResultStatus.RUNNING,
    Status.PROCESSING: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.DLQ: TaskResultStatus.FAILED,
    Status.CANCELED: TaskResultStatus.FAILED,
}
RETURN_VALUE = "return_value"

# Attempts that are not counted.
_NOT_COUNTED = frozenset({AttemptEnd.SNOOZED, AttemptEnd.RELEASED})
# The classes behind the error names that the queue itself stores.
_QUEUE_ERRORS = {
    STALE.error_class: "jobs.errors.LeaseLost",
    STALE_QUARANTINED.error_class: "jobs.errors.LeaseLost",
    "Cancel": "jobs.errors.Cancel",
}


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
    if job.job_type != TASK_JOB_TYPE or (scope is not None and not scope.allows(job.firm_id)):
        raise TaskResultDoesNotExist(result_id)
    try:
        task = task_of(TaskPayload.model_validate_json(json.dumps(job.payload)))
    except (*UNUSABLE, ValidationError, TypeError, RecursionError) as error:
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
        status=STATUSES[status],
        enqueued_at=job.created_at,
        started_at=min(started, default=None),
        finished_at=job.completed_at,
        last_attempted_at=max(started, default=None),
        args=job.payload["args"],
        kwargs=job.payload["kwargs"],
        backend=task.backend,
        errors=[_error(attempt) for attempt in tried],
        worker_ids=list(_workers(job, tried)),
    )
    if status is Status.COMPLETED:
        # As the framework does it: the field is no argument, and the class is frozen.
        object.__setattr__(result, "_return_value", (job.result or {})[RETURN_VALUE])
    return result


def _counts(attempt: Attempt) -> bool:
    """Say whether the attempt reached the task's function, as far as the history knows."""
    if attempt.end == AttemptEnd.RESCUED:
        return attempt.error_class != NOT_STARTED.error_class
    return attempt.end not in _NOT_COUNTED


def _starts(job: JobQueue, tried: Iterable[Attempt]) -> list[datetime]:
    """Return the known start times of attempts."""
    starts = [attempt.started_at for attempt in tried]
    starts.append(job.started_at)
    if job.status in IN_FLIGHT:
        # The start is written to the row a moment later.
        starts.append(job.started_at or job.claimed_at)
    return [start for start in starts if start is not None]


def _workers(job: JobQueue, tried: Iterable[Attempt]) -> Iterable[str]:
    """Return the worker of each attempt; that of a running or completed one is in the row."""
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
