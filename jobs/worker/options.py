"""What a worker was asked to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of `runworker`; empty `categories` and `job_types` mean all."""

    concurrency: int
    poll_seconds: float
    grace_seconds: float
    categories: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()
    burst: bool = False
    scheduler: bool = True
    max_jobs: int | None = None

    @property
    def ticks(self) -> bool:
        """Whether the worker runs schedules: a burst ends with the work there is."""
        return self.scheduler and not self.burst
