"""The correlation id of the request or job that is running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog
from uuid_utils.compat import uuid7

MAX_CORRELATION_ID_LENGTH = 64

_correlation_id: ContextVar[str | None] = ContextVar("correlation_id", default=None)


def current_correlation_id() -> str | None:
    """Return the correlation id in force, None outside requests and jobs."""
    return _correlation_id.get()


def new_correlation_id() -> str:
    """Return a fresh correlation id."""
    return str(uuid7())


@contextmanager
def correlation(correlation_id: str) -> Iterator[None]:
    """Put `correlation_id` in force, for enqueued jobs and for every log line inside."""
    token = _correlation_id.set(correlation_id)
    try:
        with structlog.contextvars.bound_contextvars(correlation_id=correlation_id):
            yield
    finally:
        _correlation_id.reset(token)
