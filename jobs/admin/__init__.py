"""The queue's admin pages."""

from jobs.admin.breaker import BreakerAdmin
from jobs.admin.dead_letter import DeadLetterAdmin
from jobs.admin.job import JobAdmin
from jobs.admin.limits import PauseAdmin, RateLimitAdmin
from jobs.admin.lock import LockAdmin
from jobs.admin.schedule import ScheduleAdmin
from jobs.admin.worker import WorkerAdmin

__all__ = [
    "BreakerAdmin",
    "DeadLetterAdmin",
    "JobAdmin",
    "LockAdmin",
    "PauseAdmin",
    "RateLimitAdmin",
    "ScheduleAdmin",
    "WorkerAdmin",
]
