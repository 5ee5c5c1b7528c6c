"""Asks for work on how things stand now, which a job of the same key may be past while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.queue import EnqueueResult, enqueue
from jobs.states import Priority


def enqueue_after_running(
    job_type: str,
    payload: Mapping[str, object],
    *,
    priority: Priority | None = None,
    idempotency_key: str | None = None,
) -> EnqueueResult:
    """Enqueue a job that begins after this call: at most one waits behind each that has begun.

    The one that waits gets this payload; `idempotency_key` is by default the type's. Must run in
    the firm's scope.
    """
    key = idempotency_key
    while True:
        result = enqueue(
            job_type, payload, priority=priority, idempotency_key=key, on_conflict="replace"
        )
        if result.created or result.replaced:
            return result
        # It has begun, and may be past what this request is about.
        key = f"{job_type}:after:{result.job_id}"
