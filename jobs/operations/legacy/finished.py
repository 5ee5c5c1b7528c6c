"""Stores an older system's finished jobs as history, which no worker runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from interfaces.redaction import redact
from jobs.engine.outcomes import MESSAGE_LIMIT, fingerprint
from jobs.engine.redaction import redact_secrets
from jobs.models import Attempt, DeadLetterQueue, JobQueue
from jobs.operations.legacy.rows import LegacyRow
from jobs.operations.legacy.shapes import MAX_RESULT_LENGTH
from jobs.payload_validator import encode_payload
from jobs.states import AttemptEnd, DeadReason, Status

MAX_ATTEMPTS = 32_767
# The keys under which Celery stores an error.
_ERROR_CLASS, _ERROR_MESSAGE = "exc_type", "exc_message"


def store_finished(
    rows: Iterable[LegacyRow],
    firm_id: int,
    correlation_id: str,
    *,
    failed_as: Status,
    now: datetime,
) -> list[JobQueue]:
    """Store finished jobs in the scope of their firm, with one statement a table; return them.

    Failed ones become dead letters if `failed_as` says so and their payload could run here.
    """
    jobs, attempts, letters = [], [], []
    for row in rows:
        ended = row.time("ended", "updated", "started", "created") or now
        job = _job(row, firm_id, correlation_id, failed_as, ended)
        jobs.append(job)
        if job.status in (Status.FAILED, Status.DLQ):
            error_class, message = _error(row)
            attempts.append(_attempt(job, ended, error_class, message))
            if job.status == Status.DLQ:
                letters.append(_dead_letter(job, ended, error_class, message))
    JobQueue.objects.bulk_create(jobs)
    Attempt.objects.bulk_create(attempts)
    DeadLetterQueue.objects.bulk_create(letters)
    return jobs


def _job(
    row: LegacyRow, firm_id: int, correlation_id: str, failed_as: Status, ended: datetime
) -> JobQueue:
    declared = row.declared
    created = row.time("created", "started", "ended") or ended
    status = row.status
    if status == Status.FAILED and row.payload is not None:
        status = failed_as
    attempts = _attempts(row)
    envelope = {"tenant_id": firm_id, "version": declared.version, "correlation_id": correlation_id}
    # A payload that would be refused here is left out: only the envelope is stored.
    payload = json.loads(encode_payload(declared, {**envelope, **(row.payload or {})}))
    failed = status in (Status.FAILED, Status.DLQ)
    return JobQueue(
        job_id=_new_id(created),
        firm_id=firm_id,
        category=declared.category.value,
        job_type=declared.name,
        payload_version=payload["version"],
        payload=payload,
        correlation_id=payload["correlation_id"],
        status=status.value,
        attempts=attempts,
        max_attempts=max(declared.retry.max_attempts, attempts),
        last_error=_error(row)[1] if failed else "",
        result=_result(row) if status == Status.COMPLETED else None,
        scheduled_at=row.time("due") or created,
        started_at=row.time("started"),
        completed_at=ended,
        created_at=created,
        updated_at=ended,
        ready=False,
    )


def _new_id(moment: datetime) -> UUID:
    """Return a new id with the time of that moment, because lists are sorted by id."""
    return uuid7(nanoseconds=max(0, int(moment.timestamp() * 1e9)))


def _attempts(row: LegacyRow) -> int:
    try:
        known = int(row.raw.get("attempts") or 1)
    except (TypeError, ValueError, OverflowError):
        known = 1
    return min(max(known, 1), MAX_ATTEMPTS)


def _attempt(job: JobQueue, ended: datetime, error_class: str, message: str) -> Attempt:
    end = AttemptEnd.DEAD_LETTERED if job.status == Status.DLQ else AttemptEnd.FAILED
    return Attempt(
        firm_id=job.firm_id,
        job=job,
        series=1,
        number=job.attempts,
        started_at=job.started_at,
        ended_at=ended,
        end=end.value,
        error_class=error_class,
        message=message,
    )


def _dead_letter(job: JobQueue, ended: datetime, error_class: str, message: str) -> DeadLetterQueue:
    return DeadLetterQueue(
        firm_id=job.firm_id,
        original_job=job,
        job_series=1,
        moved_at=ended,
        reason=DeadReason.EXHAUSTED.value,
        error_class=error_class,
        error=message,
        fingerprint=fingerprint(job.job_type, error_class, "", message),
    )


def _error(row: LegacyRow) -> tuple[str, str]:
    """Return the class and the text of the error that a failed row names, redacted."""
    error_class, message = "", row.raw.get("error") or ""
    result = _json(row.raw.get("result"))
    if isinstance(result, dict) and _ERROR_CLASS in result:
        error_class = str(result[_ERROR_CLASS])
        told = result.get(_ERROR_MESSAGE) or ""
        text = " ".join(map(str, told)) if isinstance(told, list) else str(told)
        message = message or text
    return redact(error_class, 200), redact(str(message), MESSAGE_LIMIT)


def _result(row: LegacyRow) -> Any:
    """Return a row's result as an object without secrets; None if there is none to be kept."""
    text = row.raw.get("result")
    if not text or len(text) > MAX_RESULT_LENGTH:
        return None
    value = _json(text)
    if value is None:
        return None
    return redact_secrets(value if isinstance(value, dict) else {"result": value})


def _json(text: object) -> Any:
    try:
        return json.loads(str(text)) if text else None
    except (ValueError, RecursionError):
        return None
