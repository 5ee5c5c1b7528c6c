"""The job types of the queue itself."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from functools import cache
from typing import Any
from uuid import UUID

from jobs import conf
from jobs.engine.prune import prune
from jobs.execution.context import JobContext
from jobs.operations.escalation import send_escalation_notice
from jobs.registry import JobPayload, job
from jobs.retry import RetryPolicy
from jobs.schedules.defaults import default_schedule
from jobs.states import Category
from jobs.tasks_backend.backend import DEFAULT_MAX_ATTEMPTS
from jobs.tasks_backend.calls import TASK_JOB_TYPE, TaskPayload, run_task
from tenants.models import Firm

# Workers of `bench_queue` run these types only, and leave other jobs of the database alone.
BENCH_JOB_TYPE = "bench_noop"
BENCH_WRITE_JOB_TYPE = "bench_write"


class EscalationNoticePayload(JobPayload):
    """The dead letter that needs attention."""

    dead_letter_id: UUID


@job(BENCH_JOB_TYPE, category=Category.MAINTENANCE, payload=JobPayload)
@job("noop", category=Category.MAINTENANCE, payload=JobPayload)
def noop(payload: JobPayload, ctx: JobContext) -> None:
    """Do nothing: for benchmarks, and to check that the queue runs."""


@job(BENCH_WRITE_JOB_TYPE, category=Category.MAINTENANCE, payload=JobPayload)
def bench_write(payload: JobPayload, ctx: JobContext) -> None:
    """Append 24 bytes to a file: like most handlers it waits for the system, and so lets others run."""
    os.write(_bench_file(), bytes(24))


@cache
def _bench_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@job(
    "purge_jobs",
    category=Category.MAINTENANCE,
    payload=JobPayload,
    lock_key=lambda _: "purge_jobs",
)
def purge_jobs(payload: JobPayload, ctx: JobContext) -> dict[str, int]:
    """Delete old finished jobs; the system firm's job does it for every firm."""
    firms = [ctx.firm] if not ctx.firm.is_system else list(Firm.objects.all())
    totals: Counter[str] = Counter()
    for firm in firms:
        ctx.heartbeat()
        totals.update(vars(prune(firm)))
    return dict(totals)


default_schedule(
    "Purge old jobs", "purge_jobs", every_seconds=lambda: conf.purge_interval_hours() * 3600
)


@job("escalation_notice", category=Category.NOTIFICATIONS, payload=EscalationNoticePayload)
def escalation_notice(payload: EscalationNoticePayload, ctx: JobContext) -> dict[str, int]:
    """Tell the assignee, or the firm's admins, about an escalated dead letter by e-mail."""
    return {"recipients": send_escalation_notice(ctx.firm, payload.dead_letter_id)}


@job(
    TASK_JOB_TYPE,
    category=Category.ORCHESTRATION,
    payload=TaskPayload,
    retry=RetryPolicy(max_attempts=DEFAULT_MAX_ATTEMPTS),
)
def django_task(payload: TaskPayload, ctx: JobContext) -> dict[str, Any]:
    """Call a function of `django.tasks`."""
    return run_task(payload, ctx)
