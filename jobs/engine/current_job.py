"""Which job the running code belongs to, and the signals that reach its handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Protocol
from uuid import UUID


class CurrentJob(Protocol):
    """A job whose handler is running: its claim."""

    @property
    def job_id(self) -> UUID:
        """The job's id."""

    @property
    def firm_id(self) -> int:
        """The id of its firm."""


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


class Flag:
    """An event that nobody waits for; a threading.Event would cost a lock per job."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Set it."""
        self._set = True

    def is_set(self) -> bool:
        """Say whether it is set."""
        return self._set


class Signals:
    """Flags that the worker sets and the handler reads at its next call of `ctx`."""

    __slots__ = ("_lock", "_shields", "cancel_requested", "lease_lost", "timed_out")

    def __init__(self, lease_lost: Flag | None = None) -> None:
        self.lease_lost = lease_lost or Flag()
        self.cancel_requested = Flag()
        self.timed_out = Flag()
        self._shields = 0
        self._lock = Lock()

    def time_out(self, interrupt: Callable[[], object]) -> None:
        """Set `timed_out`; interrupt the handler unless it is shielded."""
        self.timed_out.set()
        with self._lock:
            if not self._shields:
                interrupt()

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Keep a timeout from interrupting the block; the caller checks `timed_out` afterwards."""
        with self._lock:
            self._shields += 1
        try:
            yield
        finally:
            with self._lock:
                self._shields -= 1
