"""The public door of the queue."""

from __future__ import annotations

from jobs.enqueue import (
    EnqueueResult,
    EnqueueSpec,
    aenqueue,
    aenqueue_many,
    enqueue,
    enqueue_many,
)
from jobs.operate import cancel, discard, escalate, force_release, reprocess, retry
from jobs.userlocks import acquire_lock, release_lock, renew_lock
from jobs.waiting import why_waiting

__all__ = [
    "EnqueueResult",
    "EnqueueSpec",
    "acquire_lock",
    "aenqueue",
    "aenqueue_many",
    "cancel",
    "discard",
    "enqueue",
    "enqueue_many",
    "escalate",
    "force_release",
    "release_lock",
    "renew_lock",
    "reprocess",
    "retry",
    "why_waiting",
]
