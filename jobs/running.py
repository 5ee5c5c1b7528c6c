"""Which job the running code belongs to, so that what it enqueues knows its parent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class RunningJob:
    """The job whose handler is running here."""

    job_id: UUID
    firm_id: int


_running: ContextVar[RunningJob | None] = ContextVar("running_job", default=None)


def running_job() -> RunningJob | None:
    """Return the job whose handler is running here, None outside handlers."""
    return _running.get()


@contextmanager
def running_as(job: RunningJob) -> Iterator[None]:
    """Mark the code inside as part of `job`'s handler."""
    token = _running.set(job)
    try:
        yield
    finally:
        _running.reset(token)
