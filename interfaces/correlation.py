"""The correlation id of the request or job that is running."""

from __future__ import annotations

import re
from contextvars import ContextVar

from uuid_utils import uuid7

try:
    from opentelemetry import trace
except ImportError:
    # OpenTelemetry is optional: the operator may install it.
    trace = None  # type: ignore[assignment]

MAX_CORRELATION_ID_LENGTH = 64
# As W3C Trace Context writes it: version, trace, span, flags.
TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

_correlation_id: ContextVar[str | None] = ContextVar("correlation_id", default=None)


def current_correlation_id() -> str | None:
    """Return the correlation id in force, None outside requests and jobs."""
    return _correlation_id.get()


def new_correlation_id() -> str:
    """Return a fresh correlation id: the traceparent of the current span, if there is one."""
    if trace is not None:
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return str(uuid7())


# For code that runs too often for `with correlation(…)`. Reset with the token that set returned.
set_correlation_id = _correlation_id.set
reset_correlation_id = _correlation_id.reset


class correlation:  # noqa: N801 - a context manager, named as one
    """Put `correlation_id` in force, for enqueued jobs and for every log line inside."""

    __slots__ = ("_correlation_id", "_token")

    def __init__(self, correlation_id: str) -> None:
        self._correlation_id = correlation_id

    def __enter__(self) -> None:
        self._token = _correlation_id.set(self._correlation_id)

    def __exit__(self, *_: object) -> None:
        _correlation_id.reset(self._token)
