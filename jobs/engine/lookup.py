"""Finds what an operator acts on, within the scope in force when there is one."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.db import models

from jobs.engine.transactions import reading
from jobs.errors import UnknownJob
from jobs.models import Attempt, JobQueue
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


def in_sight(model: type[M], pk: UUID) -> M:
    """Return the row (a job, a dead letter, a lock, ...), locked for the transaction.

    Raises:
        UnknownJob: no such row in sight.
    """
    manager: Any = model._default_manager
    scope = current_scope()
    # Code of the firm's own project may act without a scope: it holds the id.
    rows = manager.unscoped("an engine verb on an id") if scope is None else manager.all()
    found: M | None = rows.select_for_update().filter(pk=pk).first()
    if found is None:
        raise UnknownJob(f"no {model._meta.verbose_name} {pk}")
    return found
