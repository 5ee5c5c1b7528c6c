"""The queue's admin pages."""

from jobs.admin import (
    breaker,
    bulk_run,
    dead_letter,
    deletion,
    job,
    limits,
    lock,
    notifications,
    pause,
    schedule,
    worker,
)

__all__ = [
    "breaker",
    "bulk_run",
    "dead_letter",
    "deletion",
    "job",
    "limits",
    "lock",
    "notifications",
    "pause",
    "schedule",
    "worker",
]
