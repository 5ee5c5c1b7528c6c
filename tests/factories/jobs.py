"""Jobs and dead letters in any state, written as rows, for tests that need no engine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from jobs.models import Attempt, DeadLetterQueue, JobQueue, Worker
from jobs.states import LIVE, Status
from tests.factories.tenants import FirmOwnedFactory


def envelope(firm_id: int) -> dict[str, Any]:
    """Return the fields with which every payload of a firm's jobs begins."""
    return {"tenant_id": firm_id, "version": "1.0", "correlation_id": "c-1"}


def task_call(**changes: Any) -> dict[str, Any]:
    """Return the payload of a `django_task` job without the envelope: the call of a task."""
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


class JobQueueFactory(FirmOwnedFactory):
    """A job, pending `noop` unless the columns say otherwise."""

    class Meta:
        model = JobQueue

    class Params:
        now = factory.LazyFunction(timezone.now)

    category = "maintenance"
    job_type = "noop"
    status = Status.PENDING
    waiting = False
    ready = factory.LazyAttribute(lambda job: job.status in LIVE and not job.waiting)
    # Lists find failed and canceled jobs by this column.
    completed_at = factory.LazyAttribute(
        lambda job: job.now if job.status in (Status.FAILED, Status.CANCELED) else None
    )
    payload_version = "1.0"
    payload = factory.LazyAttribute(lambda job: envelope(job.firm.pk))
    correlation_id = "c-1"
    created_at = factory.SelfAttribute("now")
    scheduled_at = factory.SelfAttribute("now")


class DeadLetterQueueFactory(FirmOwnedFactory):
    """The dead letter of a job, open and for a fatal error unless the columns say otherwise."""

    class Meta:
        model = DeadLetterQueue

    original_job = factory.SubFactory(JobQueueFactory, status=Status.DLQ)
    firm = factory.SelfAttribute("original_job.firm")
    job_series = 1
    reason = "fatal"


class WorkerFactory(DjangoModelFactory):
    """A worker with a running lease."""

    class Meta:
        model = Worker

    host = "host-1"
    pid = 42
    version = "1"
    concurrency = 3
    lease_expires_at = factory.LazyFunction(lambda: timezone.now() + timedelta(hours=1))


def record_death(job: JobQueue, message: str, traceback: str) -> None:
    """Record an attempt of two seconds that ended in the job's dead letter."""
    # Both times are by this clock, because the database's may be a millisecond behind.
    ended_at = timezone.now()
    Attempt.objects.create(
        firm=job.firm,
        job=job,
        series=1,
        number=1,
        end="dead_lettered",
        started_at=ended_at - timedelta(seconds=2),
        ended_at=ended_at,
        error_class="ValueError",
        message=message,
        traceback=traceback,
    )
