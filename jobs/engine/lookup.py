"""Reads jobs by id, whatever the scope."""

from __future__ import annotations

from uuid import UUID

from jobs.engine.transactions import reading
from jobs.models import Attempt, JobQueue


def read_job(job_id: UUID) -> JobQueue:
    """Return the row of a job whose id the caller was just given by the engine.

    Raises:
        JobQueue.DoesNotExist: it was purged meanwhile.
    """
    rows = JobQueue.objects.unscoped("an id just given by the engine")
    row: JobQueue = reading(lambda: rows.get(pk=job_id))
    return row


def read_with_attempts(job_id: UUID) -> tuple[JobQueue, list[Attempt]]:
    """Return a job, whatever the scope, with its attempts in order; the caller checks the firm.

    Raises:
        JobQueue.DoesNotExist: there is none.
    """

    def read() -> tuple[JobQueue, list[Attempt]]:
        job = JobQueue.objects.unscoped("the caller checks the firm").get(pk=job_id)
        attempts = Attempt.objects.unscoped("of that job").filter(job_id=job_id)
        return job, list(attempts.order_by("ended_at", "id"))

    return reading(read)
