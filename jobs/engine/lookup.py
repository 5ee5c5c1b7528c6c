"""Finds what an operator acts on, within the scope in force when there is one."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.db import models

from jobs.engine.transactions import reading
from jobs.errors import UnknownJob
from jobs.models import (
    Attempt,
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    JobQueue,
    Pause,
    Schedule,
)
from tenants.scope import current_scope

M = TypeVar("M", bound=models.Model)


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


def job_in_sight(job_id: UUID) -> JobQueue:
    """Return the job, locked for the transaction.

    Raises:
        UnknownJob: no such job in sight.
    """
    return _in_sight(JobQueue, job_id)


def dead_letter_in_sight(dead_letter_id: UUID) -> DeadLetterQueue:
    """Return the dead letter, locked for the transaction.

    Raises:
        UnknownJob: no such dead letter in sight.
    """
    return _in_sight(DeadLetterQueue, dead_letter_id)


def lock_in_sight(lock_id: UUID) -> ConcurrencyLock:
    """Return the lock, locked for the transaction.

    Raises:
        UnknownJob: no such lock in sight.
    """
    return _in_sight(ConcurrencyLock, lock_id)


def pause_in_sight(pause_id: UUID) -> Pause:
    """Return the pause, locked for the transaction.

    Raises:
        UnknownJob: no such pause in sight.
    """
    return _in_sight(Pause, pause_id)


def breaker_in_sight(breaker_id: UUID) -> CircuitBreaker:
    """Return the circuit breaker, locked for the transaction.

    Raises:
        UnknownJob: no such breaker in sight.
    """
    return _in_sight(CircuitBreaker, breaker_id)


def schedule_in_sight(schedule_id: UUID) -> Schedule:
    """Return the schedule, locked for the transaction.

    Raises:
        UnknownJob: no such schedule in sight.
    """
    return _in_sight(Schedule, schedule_id)


def _in_sight(model: type[M], pk: UUID) -> M:
    manager: Any = model._default_manager
    scope = current_scope()
    # Code of the firm's own project may act without a scope: it holds the id.
    rows = manager.unscoped("an engine verb on an id") if scope is None else manager.all()
    found: M | None = rows.select_for_update().filter(pk=pk).first()
    if found is None:
        raise UnknownJob(f"no {model._meta.verbose_name} {pk}")
    return found
