"""The queue's tables. Nothing but `jobs.engine` writes to them."""

from jobs.models.attempt import Attempt
from jobs.models.breaker import CircuitBreaker
from jobs.models.dead_letter import DeadLetterQueue
from jobs.models.fan_in import FanIn, FanInMember
from jobs.models.idempotency import IdempotencyKey
from jobs.models.job import JobQueue
from jobs.models.limits import Pause, RateBucket, RateLimit
from jobs.models.lock import ConcurrencyLock
from jobs.models.schedule import Schedule
from jobs.models.stats import JobMinute
from jobs.models.step import JobStep
from jobs.models.worker import Worker

__all__ = [
    "Attempt",
    "CircuitBreaker",
    "ConcurrencyLock",
    "DeadLetterQueue",
    "FanIn",
    "FanInMember",
    "IdempotencyKey",
    "JobMinute",
    "JobQueue",
    "JobStep",
    "Pause",
    "RateBucket",
    "RateLimit",
    "Schedule",
    "Worker",
]
