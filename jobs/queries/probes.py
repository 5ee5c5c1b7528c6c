"""The probe of a circuit breaker in words."""

from __future__ import annotations

from uuid import UUID

from jobs.states import IN_FLIGHT, Status


def probe_in_words(job_id: UUID, status: str | None) -> str:
    """Return what becomes of the probe; `status` is its job's, None if the job is gone."""
    if status == Status.PENDING:
        return f"job {job_id} waits to be tried as a probe"
    if status in IN_FLIGHT:
        return f"job {job_id} is being tried as a probe"
    # Canceled, for example.
    return "the next job that is due will be tried as a probe"
