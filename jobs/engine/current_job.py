"""Which job the running code belongs to, and the signals that reach its handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Protocol
from uuid import UUID

from django.core.exceptions import SynchronousOnlyOperation
from django.utils.asyncio import async_unsafe

from jobs.errors import WrongPlace


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


# The first marks the code that follows as a job's handler; the second, given its result, ends that.
set_current_job = _current.set
reset_current_job = _current.reset


def in_event_loop() -> bool:
    """Say whether this thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_query_in_event_loop(twin: str) -> None:
    """Refuse what Django would refuse, and name the call for coroutines.

    Raises:
        WrongPlace: this thread runs an event loop.
    """
    try:
        _query()
    except SynchronousOnlyOperation:
        raise WrongPlace(f"this would block the event loop: use await {twin}(…)") from None


@async_unsafe
def _query() -> None:
    """Be refused or not, as Django decides it for a query."""


class Flag:
    """A flag to be polled; a threading.Event would cost a lock per job."""

    # A class attribute, because nearly all flags stay unset: they then cost an attempt nothing.
    _set = False

    def set(self) -> None:
        """Set it."""
        self._set = True

    def is_set(self) -> bool:
        """Say whether it is set."""
        return self._set


class Signals:
    """What the worker sets and the handler reads at its next call of `ctx`.

    All attempts of a worker share one `lease_lost`.
    """

    # Class attributes, because nearly all attempts never set them: they then cost nothing.
    cancel_requested = False
    timed_out = False
    # Whether `ctx.transaction()` has completed the job, or could not.
    has_completed = False
    completion_refused = False
    # One lock for all attempts, because it is held only for a moment; one for each would cost more.
    _lock = Lock()
    _shields = 0

    def __init__(self, lease_lost: Flag | None = None) -> None:
        self.lease_lost = lease_lost or Flag()

    def note_completion(self) -> None:
        """Note that `ctx.transaction()` has completed the job."""
        self.has_completed = True

    def time_out(self, interrupt: Callable[[], object]) -> None:
        """Set `timed_out`; interrupt the handler unless it is shielded."""
        self.timed_out = True
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
