"""The queue's tables. Nothing but `jobs.engine` writes to them."""

from jobs.models.attempt import Attempt
from jobs.models.dead_letter import DeadLetterQueue
from jobs.models.idempotency import IdempotencyKey
from jobs.models.job import JobQueue
from jobs.models.lock import ConcurrencyLock
from jobs.models.stats import JobMinute
from jobs.models.step import JobStep
from jobs.models.worker import Worker

__all__ = [
    "Attempt",
    "ConcurrencyLock",
    "DeadLetterQueue",
    "IdempotencyKey",
    "JobMinute",
    "JobQueue",
    "JobStep",
    "Worker",
]
