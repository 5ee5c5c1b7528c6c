"""The job types of the queue itself."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from functools import cache
from typing import Any
from uuid import UUID

from jobs import conf
from jobs.engine.prune import prune
from jobs.errors import Snooze
from jobs.execution.context import JobContext
from jobs.operations.bulk_step import do_step
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
# A bulk run gives its thread back after this time, and between two chunks it pauses for this part
# of the time that the chunk took.
BULK_SECONDS = 20.0
BULK_PAUSE, LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS = 0.25, 0.01, 0.25
LEAST_SNOOZE_SECONDS = 0.1
# Soon: an operator watches, and what was done is not done again.
BULK_RETRY = RetryPolicy(max_attempts=10, base_delay_seconds=1, max_delay_seconds=30)


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


class BulkPayload(JobPayload):
    """The bulk run to do."""

    run_id: UUID


@job("dlq_bulk", category=Category.MAINTENANCE, payload=BulkPayload, retry=BULK_RETRY)
@job("job_bulk", category=Category.MAINTENANCE, payload=BulkPayload, retry=BULK_RETRY)
def bulk(payload: BulkPayload, ctx: JobContext) -> dict[str, Any]:
    """Do a bulk run, for a while at a time: other jobs get the thread in between."""
    until = time.monotonic() + BULK_SECONDS
    while True:
        ctx.heartbeat()
        begun = time.monotonic()
        step = do_step(payload.run_id, ctx.firm, ctx.job_id, ctx.fence)
        if step.is_over:
            run = step.run
            return {"state": run.state, "done": run.done, "refused": run.refused} if run else {}
        now = time.monotonic()
        if step.wait_seconds or now > until:
            raise Snooze(seconds=max(step.wait_seconds, LEAST_SNOOZE_SECONDS))
        # Others write meanwhile: on SQLite nobody else can during a chunk.
        time.sleep(min(max((now - begun) * BULK_PAUSE, LEAST_PAUSE_SECONDS), MOST_PAUSE_SECONDS))


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
