"""The public API of the queue."""

from __future__ import annotations

from jobs.engine.chains import aenqueue_chain, enqueue_chain
from jobs.engine.enqueue import (
    EnqueueResult,
    aenqueue,
    aenqueue_many,
    enqueue,
    enqueue_many,
)
from jobs.engine.enqueue_batch import BatchResult, aenqueue_batch, enqueue_batch
from jobs.engine.job_call import EnqueueOptions, JobCall
from jobs.engine.new_job import EnqueueSpec
from jobs.engine.user_locks import acquire_lock, release_lock, renew_lock
from jobs.operations.dead_letters import discard, escalate, reprocess
from jobs.operations.edit import edit
from jobs.operations.jobs import cancel, retry, why_waiting
from jobs.operations.limits import clear_rate_limit, pause, resume, set_rate_limit
from jobs.operations.locks import force_release
from jobs.queries.batches import BatchProgress, batch_progress

__all__ = [
    "BatchProgress",
    "BatchResult",
    "EnqueueOptions",
    "EnqueueResult",
    "EnqueueSpec",
    "JobCall",
    "acquire_lock",
    "aenqueue",
    "aenqueue_batch",
    "aenqueue_chain",
    "aenqueue_many",
    "batch_progress",
    "cancel",
    "clear_rate_limit",
    "discard",
    "edit",
    "enqueue",
    "enqueue_batch",
    "enqueue_chain",
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
