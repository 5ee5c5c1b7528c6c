"""The queue's tables. Nothing but `jobs.engine` changes the status of a job."""

from jobs.models.batch import Batch, BatchMember
from jobs.models.bulk import BulkMember, BulkRun
from jobs.models.dead_letter import DeadLetterQueue
from jobs.models.fan_in import FanIn, FanInMember
from jobs.models.history import (
    Attempt,
    AttemptLog,
    IdempotencyKey,
    JobHour,
    JobMinute,
    JobMinuteDelta,
    JobStep,
    PlatformHour,
    PlatformMinute,
)
from jobs.models.job import JobQueue
from jobs.models.limits import CircuitBreaker, ConcurrencyLock, Pause, RateBucket, RateLimit
from jobs.models.notifications import Delivery, FailureAlert, NotificationEndpoint
from jobs.models.requests import IdempotentRequest
from jobs.models.rollup import FailingType, LatencyBucket, PlatformLatency, WorkerVersion
from jobs.models.saved_view import SavedView
from jobs.models.schedule import Schedule, ScheduleRun
from jobs.models.worker import Worker

__all__ = [
    "Attempt",
    "AttemptLog",
    "Batch",
    "BatchMember",
    "BulkMember",
    "BulkRun",
    "CircuitBreaker",
    "ConcurrencyLock",
    "DeadLetterQueue",
    "Delivery",
    "FailingType",
    "FailureAlert",
    "FanIn",
    "FanInMember",
    "IdempotencyKey",
    "IdempotentRequest",
    "JobHour",
    "JobMinute",
    "JobMinuteDelta",
    "JobQueue",
    "JobStep",
    "LatencyBucket",
    "NotificationEndpoint",
    "Pause",
    "PlatformHour",
    "PlatformLatency",
    "PlatformMinute",
    "RateBucket",
    "RateLimit",
    "SavedView",
    "Schedule",
    "ScheduleRun",
    "Worker",
    "WorkerVersion",
]
