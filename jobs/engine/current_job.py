"""The job whose handler is running; jobs that it enqueues get it as their parent."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import NamedTuple
from uuid import UUID


class CurrentJob(NamedTuple):
    """A job whose handler is running."""

    job_id: UUID
    firm_id: int


_current: ContextVar[CurrentJob | None] = ContextVar("current_job", default=None)


def current_job() -> CurrentJob | None:
    """Return the job whose handler is running in this context, None outside handlers."""
    return _current.get()


class as_current_job:  # noqa: N801 - a context manager, named as one
    """Mark the code inside as part of `job`'s handler."""

    __slots__ = ("_job", "_token")

    def __init__(self, job: CurrentJob) -> None:
        self._job = job

    def __enter__(self) -> None:
        self._token = _current.set(self._job)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def in_event_loop() -> bool:
    """Say whether this thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
