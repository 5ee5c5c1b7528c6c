"""A span for each attempt, where OpenTelemetry is installed and set up; the queue needs neither.

The trace context of the code that enqueues travels in the correlation id, so no column is added: if
a span is current and no correlation id is given, the new correlation id is the span's traceparent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interfaces.correlation import TRACEPARENT
from jobs.engine.claim import Claim
from jobs.engine.outcomes import DeadLettered, Outcome, Retry
from jobs.execution.events import OUTCOMES

if TYPE_CHECKING:
    from opentelemetry.trace import Link

try:
    from opentelemetry import trace
except ImportError:
    # At run time the package is not there unless the operator installs it.
    trace = None  # type: ignore[assignment]

TRACER = "mailroom.jobs"


class AttemptSpan:
    """The span of one attempt; `ended` notes how it ended."""

    def ended(self, outcome: Outcome) -> None:
        """Note the outcome; does nothing without a tracer."""


class _Recording(AttemptSpan):
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def ended(self, outcome: Outcome) -> None:
        self._span.set_attribute("mailroom.outcome", OUTCOMES[type(outcome)])
        if isinstance(outcome, Retry | DeadLettered):
            # The class alone: a message may quote mail.
            self._span.set_attribute("error.type", outcome.failure.error_class)
            self._span.set_status(trace.Status(trace.StatusCode.ERROR))


_NONE = AttemptSpan()


def is_traced() -> bool:
    """Say whether OpenTelemetry is installed and its SDK is set up."""
    provider = getattr(trace, "get_tracer_provider", None)
    return provider is not None and not isinstance(provider(), trace.ProxyTracerProvider)


@contextmanager
def attempt_span(claim: Claim) -> Iterator[AttemptSpan]:
    """Record the attempt as a span, linked to the context in which its job was enqueued."""
    if not is_traced():
        yield _NONE
        return
    with trace.get_tracer(TRACER).start_as_current_span(
        f"attempt {claim.job_type}",
        kind=trace.SpanKind.CONSUMER,
        links=_links(claim.correlation_id),
        attributes={
            "mailroom.job_id": str(claim.job_id),
            "mailroom.job_type": claim.job_type,
            "mailroom.category": claim.category,
            "mailroom.attempt": claim.attempts,
            "mailroom.correlation_id": claim.correlation_id,
            "mailroom.tenant_id": claim.firm_id,
        },
    ) as span:
        yield _Recording(span)


def _links(correlation_id: str) -> list[Link]:
    found = TRACEPARENT.fullmatch(correlation_id)
    if found is None:
        return []
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    context = trace.SpanContext(
        trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags)
    )
    return [trace.Link(context)] if context.is_valid else []
