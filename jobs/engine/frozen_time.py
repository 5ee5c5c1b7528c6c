"""The database's time, which tests can stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime

_frozen: ContextVar[datetime | None] = ContextVar("frozen_database_time", default=None)


def frozen_now() -> datetime | None:
    """Return the stopped time, None while time runs."""
    return _frozen.get()


@contextmanager
def stopped_at(moment: datetime) -> Iterator[None]:
    """Let every engine statement of this thread see `moment` (aware) as now."""
    if moment.tzinfo is None:
        raise ValueError("stopped_at() takes an aware datetime")
    token = _frozen.set(moment)
    try:
        yield
    finally:
        _frozen.reset(token)
