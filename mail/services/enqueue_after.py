"""Enqueues work on the present state, which a running job with the same key may have read past."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.models import JobQueue
from jobs.queue import EnqueueResult, enqueue
from jobs.states import Priority, Status


def enqueue_after_running(
    job_type: str,
    payload: Mapping[str, object],
    *,
    priority: Priority | None = None,
    idempotency_key: str | None = None,
    retry_will_do: bool = False,
) -> EnqueueResult:
    """Enqueue a job that begins after this call; at most one waits behind each job that has begun.

    A job that waits gets this payload; `idempotency_key` is by default the type's. With
    `retry_will_do`, a job that waits for a retry is enough, because it does the same from the
    beginning. Must run in the firm's scope, in a transaction.
    """
    key = idempotency_key
    while True:
        result = enqueue(
            job_type, payload, priority=priority, idempotency_key=key, on_conflict="replace"
        )
        if result.created or result.replaced or (retry_will_do and still_waits(result)):
            return result
        # The job has begun, and may have passed what this request is about.
        key = f"{job_type}:after:{result.job_id}"


def still_waits(result: EnqueueResult) -> bool:
    """Say whether the job waits, and lock it so that nobody claims it before the caller commits."""
    waiting = JobQueue.objects.filter(pk=result.job_id, status=Status.PENDING)
    return waiting.select_for_update(no_key=True).first() is not None
