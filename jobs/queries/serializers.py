"""Jobs and dead letters as the command line and REST show them.

Times are ISO 8601 with Z, ids are strings, what is unknown is None, secrets are masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict
from uuid import UUID

from jobs.engine.redaction import Redactor, redact_secrets
from jobs.models import Attempt, ConcurrencyLock, DeadLetterQueue, JobQueue, JobStep, Worker
from jobs.queries.job_detail import JobDetails
from jobs.queries.why_waiting import WaitReason


class JobRow(TypedDict):
    """A job in a list."""

    job_id: str
    firm: str
    category: str
    job_type: str
    status: str
    priority: int
    attempts: int
    max_attempts: int
    correlation_id: str
    parent_id: str | None
    lock_key: str | None
    idempotency_key: str | None
    last_error: str | None
    scheduled_at: str | None
    created_at: str | None
    started_at: str | None
    completed_at: str | None


class AttemptRow(TypedDict):
    """An attempt that did not complete its job."""

    series: int
    number: int
    worker_id: str | None
    started_at: str | None
    ended_at: str | None
    end: str
    error_class: str | None
    message: str | None
    traceback: str | None


class StepRow(TypedDict):
    """A finished step of a job."""

    name: str
    result: Any
    finished_at: str | None


class WaitRow(TypedDict):
    """One thing that stands in a job's way."""

    code: str
    detail: str
    until: str | None


class JobDetail(JobRow):
    """A job with everything that belongs to it."""

    payload: Any
    result: Any
    attempts_log: list[AttemptRow]
    steps: list[StepRow]
    children: list[JobRow]
    dead_letter_id: str | None
    why_waiting: list[WaitRow]


class DeadLetterRow(TypedDict):
    """A dead letter, in a list or alone."""

    id: str
    job_id: str
    firm: str
    category: str
    job_type: str
    reason: str
    error_class: str | None
    error: str | None
    fingerprint: str | None
    moved_at: str | None
    resolution: str | None
    resolution_note: str | None
    reviewed_by: str | None
    reviewed_at: str | None
    assigned_to: str | None


class LockRow(TypedDict):
    """A held lock."""

    id: str
    firm: str
    lock_key: str
    slot: int
    holder_id: str
    acquired_at: str | None
    expires_at: str | None
    fencing_token: int


class WorkerRow(TypedDict):
    """A worker process; `running` names those of its running jobs that are in sight."""

    id: str
    host: str
    pid: int
    version: str
    categories: list[str]
    job_types: list[str]
    concurrency: int
    running: list[str]
    rss_bytes: int
    started_at: str | None
    heartbeat_at: str | None
    lease_expires_at: str | None
    dead_at: str | None


def iso(moment: datetime | None) -> str | None:
    """Return the time in UTC, ISO 8601 with Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job_row(job: JobQueue) -> JobRow:
    """Return the job as a list shows it; select its firm along with it."""
    return JobRow(
        job_id=str(job.job_id),
        firm=job.firm.slug,
        category=job.category,
        job_type=job.job_type,
        status=job.status,
        priority=job.priority,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        correlation_id=job.correlation_id,
        parent_id=_id(job.parent_id),
        lock_key=job.lock_key,
        idempotency_key=job.idempotency_key,
        last_error=job.last_error or None,
        scheduled_at=iso(job.scheduled_at),
        created_at=iso(job.created_at),
        started_at=iso(job.started_at),
        completed_at=iso(job.completed_at),
    )


def job_detail(details: JobDetails, mask: Redactor = redact_secrets) -> JobDetail:
    """Return the job with everything that belongs to it; `mask` goes over what it carries."""
    job, dead_letter = details.job, details.dead_letter
    return JobDetail(
        **job_row(job),
        payload=mask(job.payload),
        result=mask(job.result),
        attempts_log=[attempt_row(attempt) for attempt in details.attempts],
        steps=[step_row(step, mask) for step in details.steps],
        children=[job_row(child) for child in details.children],
        dead_letter_id=None if dead_letter is None else str(dead_letter.pk),
        why_waiting=[wait_row(reason) for reason in details.reasons],
    )


def attempt_row(attempt: Attempt) -> AttemptRow:
    """Return one attempt of a job's history."""
    return AttemptRow(
        series=attempt.series,
        number=attempt.number,
        worker_id=_id(attempt.worker_id),
        started_at=iso(attempt.started_at),
        ended_at=iso(attempt.ended_at),
        end=attempt.end,
        error_class=attempt.error_class or None,
        message=attempt.message or None,
        traceback=attempt.traceback or None,
    )


def step_row(step: JobStep, mask: Redactor = redact_secrets) -> StepRow:
    """Return one finished step."""
    return StepRow(name=step.name, result=mask(step.result), finished_at=iso(step.finished_at))


def wait_row(reason: WaitReason) -> WaitRow:
    """Return one thing that stands in a job's way."""
    return WaitRow(code=reason.code, detail=reason.detail, until=iso(reason.until))


def dead_letter_row(row: DeadLetterQueue) -> DeadLetterRow:
    """Return a dead letter; select its firm, job and people along with it."""
    return DeadLetterRow(
        id=str(row.pk),
        job_id=str(row.original_job_id),
        firm=row.firm.slug,
        category=row.original_job.category,
        job_type=row.original_job.job_type,
        reason=row.reason,
        error_class=row.error_class or None,
        error=row.error or None,
        fingerprint=row.fingerprint or None,
        moved_at=iso(row.moved_at),
        resolution=row.resolution or None,
        resolution_note=row.resolution_note or None,
        reviewed_by=None if row.reviewed_by is None else row.reviewed_by.get_username(),
        reviewed_at=iso(row.reviewed_at),
        assigned_to=None if row.assigned_to is None else row.assigned_to.get_username(),
    )


def lock_row(lock: ConcurrencyLock) -> LockRow:
    """Return a held lock; select its firm along with it."""
    return LockRow(
        id=str(lock.pk),
        firm=lock.firm.slug,
        lock_key=lock.lock_key,
        slot=lock.slot,
        holder_id=lock.holder_id,
        acquired_at=iso(lock.acquired_at),
        expires_at=iso(lock.expires_at),
        fencing_token=lock.fencing_token,
    )


def worker_row(worker: Worker, running: Sequence[str]) -> WorkerRow:
    """Return a worker; `running` are the ids of those of its running jobs that are in sight."""
    return WorkerRow(
        id=str(worker.pk),
        host=worker.host,
        pid=worker.pid,
        version=worker.version,
        categories=worker.categories,
        job_types=worker.job_types,
        concurrency=worker.concurrency,
        running=list(running),
        rss_bytes=worker.rss_bytes,
        started_at=iso(worker.started_at),
        heartbeat_at=iso(worker.heartbeat_at),
        lease_expires_at=iso(worker.lease_expires_at),
        dead_at=iso(worker.dead_at),
    )


def _id(value: UUID | None) -> str | None:
    return None if value is None else str(value)
