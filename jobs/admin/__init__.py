"""The queue in Django's admin: to read, and to act on."""

from jobs.admin.dead_letter import DeadLetterAdmin
from jobs.admin.job import JobAdmin
from jobs.admin.lock import LockAdmin
from jobs.admin.worker import WorkerAdmin

__all__ = ["DeadLetterAdmin", "JobAdmin", "LockAdmin", "WorkerAdmin"]
