"""Jobs and dead letters in any state, written as rows: for what reads the tables, not the engine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs.models import DeadLetterQueue, JobQueue
from jobs.states import LIVE, Status
from tenants.models import Firm
from tenants.scope import all_firms


def envelope(firm_id: int) -> dict[str, Any]:
    """Return what every payload of a firm's jobs begins with."""
    return {"tenant_id": firm_id, "version": "1.0", "correlation_id": "c-1"}


def task_call(**changes: Any) -> dict[str, Any]:
    """Return what a job of `django_task` carries beside the envelope: the call of a task."""
    return {
        "module_path": "tests.jobs.tasks_backend.tasks.noop",
        "args": [],
        "kwargs": {},
        "backend": "default",
        "queue_name": "default",
        "priority": 0,
        "run_after": None,
        **changes,
    }


def make_job(firm: Firm, **columns: Any) -> JobQueue:
    """Store a job of `firm`, pending `noop` unless `columns` say otherwise."""
    now: datetime = timezone.now()
    status = columns.get("status", Status.PENDING)
    values: dict[str, Any] = {
        "category": "maintenance",
        "job_type": "noop",
        "payload_version": "1.0",
        "payload": envelope(firm.pk),
        "correlation_id": "c-1",
        "created_at": now,
        "scheduled_at": now,
        "ready": status in LIVE and not columns.get("waiting", False),
        **columns,
    }
    with all_firms("test"):
        job: JobQueue = JobQueue.objects.create(firm=firm, **values)
        job.refresh_from_db()
        return job


def make_letter(job: JobQueue, **columns: Any) -> DeadLetterQueue:
    """Store the dead letter of `job`, open and of a fatal error unless `columns` say otherwise."""
    with all_firms("test"):
        letter: DeadLetterQueue = DeadLetterQueue.objects.create(
            firm_id=job.firm_id,
            original_job=job,
            **{"job_series": 1, "reason": "fatal", **columns},
        )
        return letter
