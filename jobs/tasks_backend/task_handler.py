"""The job type that calls functions of `django.tasks`."""

from __future__ import annotations

from typing import Any

from jobs.execution.context import JobContext
from jobs.registry import job
from jobs.retry import RetryPolicy
from jobs.states import Category
from jobs.tasks_backend.calls import TASK_JOB_TYPE, TaskPayload, run_task
from jobs.tasks_backend.types import DEFAULT_MAX_ATTEMPTS


@job(
    TASK_JOB_TYPE,
    category=Category.ORCHESTRATION,
    payload=TaskPayload,
    retry=RetryPolicy(max_attempts=DEFAULT_MAX_ATTEMPTS),
)
def django_task(payload: TaskPayload, ctx: JobContext) -> dict[str, Any]:
    """Call a function of `django.tasks` that its payload names."""
    return run_task(payload, ctx)
