"""The queue's admin pages."""

from jobs.admin import breaker, dead_letter, job, limits, lock, schedule, worker

__all__ = ["breaker", "dead_letter", "job", "limits", "lock", "schedule", "worker"]
