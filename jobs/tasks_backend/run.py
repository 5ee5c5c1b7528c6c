"""Runs a task's function inside its job, and sends the signals of its start and end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.execution.context import JobContext
from jobs.execution.events import Event, subscribe
from jobs.states import Status
from jobs.tasks_backend.calls import TASK_JOB_TYPE, TaskPayload, task_of
from jobs.tasks_backend.framework import (
    Task,
    TaskContext,
    normalize_json,
    task_finished,
    task_started,
)
from jobs.tasks_backend.results import RETURN_VALUE, find_result


def run_task(payload: TaskPayload, ctx: JobContext) -> dict[str, Any]:
    """Call the function and return what it returned, as JSON.

    Raises:
        ImportError: this code has no such task.
        TypeError: its return value cannot be JSON.
    """
    task = task_of(payload)
    result = find_result(ctx.job_id)
    task_started.send_robust(_sender(task), task_result=result)
    context = [TaskContext(task_result=result)] if task.takes_context else []
    returned = task.call(*context, *payload.args, **payload.kwargs)
    return {RETURN_VALUE: normalize_json(returned)}


def send_task_signals() -> None:
    """From now on send `task_finished` after a task's job was settled."""
    subscribe(Event.ATTEMPT_FINISHED, _send_finished)


def _send_finished(fields: Mapping[str, Any]) -> None:
    # The status is unknown when an earlier write was settled and its answer lost.
    if fields["job_type"] != TASK_JOB_TYPE or fields["status"] == Status.PENDING:
        return
    result = find_result(fields["job_id"])
    if result.is_finished:
        task_finished.send_robust(_sender(result.task), task_result=result)


def _sender(task: Task[..., Any]) -> type:
    return type(task.get_backend())
