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
from jobs.limits import clear_rate_limit, pause, resume, set_rate_limit
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
    "clear_rate_limit",
    "discard",
    "enqueue",
    "enqueue_many",
    "escalate",
    "force_release",
    "pause",
    "release_lock",
    "renew_lock",
    "reprocess",
    "resume",
    "retry",
    "set_rate_limit",
    "why_waiting",
]
