"""Which job the running code belongs to, so that what it enqueues knows its parent."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import NamedTuple
from uuid import UUID


class RunningJob(NamedTuple):
    """The job whose handler is running here."""

    job_id: UUID
    firm_id: int


_running: ContextVar[RunningJob | None] = ContextVar("running_job", default=None)


def running_job() -> RunningJob | None:
    """Return the job whose handler is running here, None outside handlers."""
    return _running.get()


class running_as:  # noqa: N801 - a context manager, named as one
    """Mark the code inside as part of `job`'s handler."""

    __slots__ = ("_job", "_token")

    def __init__(self, job: RunningJob) -> None:
        self._job = job

    def __enter__(self) -> None:
        self._token = _running.set(self._job)

    def __exit__(self, *_: object) -> None:
        _running.reset(self._token)


def in_event_loop() -> bool:
    """Say whether this thread runs an event loop, which nothing may block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
