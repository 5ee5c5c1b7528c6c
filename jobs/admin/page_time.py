"""The time by which the pages of the admin tell ages: the database's."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import Any

from django.core.signals import request_finished, request_started

from jobs.engine.clock import database_now

# What the request in progress has read, at most one time; None outside of a request.
_read: ContextVar[list[datetime] | None] = ContextVar("page_time", default=None)


def page_time() -> datetime:
    """Return the database's time; a request reads it once, for all rows that it shows."""
    times = _read.get()
    if times is None:
        return database_now()
    if not times:
        times.append(database_now())
    return times[0]


def _begin(**_: Any) -> None:
    _read.set([])


def _end(**_: Any) -> None:
    _read.set(None)


request_started.connect(_begin)
request_finished.connect(_end)
