"""Each attempt has a span, linked to the one in which its job was enqueued."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from interfaces.correlation import new_correlation_id
from jobs.errors import Fatal
from jobs.execution import tracing
from jobs.queue import enqueue
from jobs.registry import JobPayload, JobType, job
from jobs.testing import drain
from tenants.models import Firm

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("O-05")]


class Named(JobPayload):
    """A payload with a name."""

    name: str


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Set up the SDK for this test; return its exporter."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def types(job_types: dict[str, JobType]) -> None:
    """Declare a type whose handler enqueues a job, and the type of that job, which fails."""

    @job("test.first", category="sync", payload=Named)
    def first(payload: Named, ctx: Any) -> None:
        enqueue("test.second", {"name": payload.name})

    @job("test.second", category="sync", payload=Named)
    def second(payload: Named, ctx: Any) -> None:
        raise Fatal(f"a secret of {payload.name}")


def test_attempts_are_linked_to_the_span_that_enqueued(
    firm: Firm, types: None, spans: InMemorySpanExporter
) -> None:
    tracer = trace.get_tracer_provider().get_tracer("test")
    with tracer.start_as_current_span("request") as request:
        job_id = enqueue("test.first", {"name": "Ada"}, firm=firm).job.pk
    drain()
    context = request.get_span_context()
    found = {span.name: span for span in spans.get_finished_spans()}
    assert found.keys() == {"request", "attempt test.first", "attempt test.second"}
    for name in ("attempt test.first", "attempt test.second"):
        (link,) = found[name].links
        assert (link.context.trace_id, link.context.span_id) == (context.trace_id, context.span_id)
    first, second = found["attempt test.first"], found["attempt test.second"]
    assert first.attributes is not None
    assert first.attributes["mailroom.job_id"] == str(job_id)
    assert first.attributes["mailroom.outcome"] == "completed"
    assert first.status.is_ok or first.status.status_code is trace.StatusCode.UNSET
    assert second.attributes is not None
    assert second.attributes["mailroom.outcome"] == "deadlettered"
    assert second.attributes["error.type"]
    assert second.status.status_code is trace.StatusCode.ERROR
    assert "secret" not in second.to_json()


def test_a_job_with_another_correlation_id_has_no_link(
    firm: Firm, types: None, spans: InMemorySpanExporter
) -> None:
    enqueue("test.second", {"name": "Ada"}, firm=firm, correlation_id="order 7")
    drain()
    (span,) = spans.get_finished_spans()
    assert list(span.links) == []
    assert span.attributes is not None
    assert span.attributes["mailroom.correlation_id"] == "order 7"


def test_without_the_package_nothing_is_recorded(
    firm: Firm, types: None, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "trace", None)
    monkeypatch.setattr("interfaces.correlation.trace", None)
    assert not new_correlation_id().startswith("00-")
    job_id = enqueue("test.first", {"name": "Ada"}, firm=firm).job.pk
    drain()
    assert job_id
    assert spans.get_finished_spans() == ()
