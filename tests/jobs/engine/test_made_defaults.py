"""A `default_factory` of a payload is called once, when the job is enqueued."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, SecretStr, create_model

from jobs.errors import PayloadInvalid, Retryable
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from jobs.registry import JobPayload, job
from jobs.testing import drain
from tenants.models import Firm
from tests.queue_kit import row

pytestmark = pytest.mark.django_db(transaction=True)

ENVELOPE = {"tenant_id", "version", "correlation_id"}
Seen = list["ReportPayload"]


class ReportPayload(JobPayload):
    """Two fields whose default differs each time, and one whose default is always the same."""

    name: str = ""
    ticket: UUID = Field(default_factory=uuid4)
    asked_at: datetime = Field(default_factory=lambda: datetime.now(UTC), alias="askedAt")
    tags: list[str] = Field(default_factory=list)


class Span(BaseModel):
    """A part whose field has another name in payloads."""

    start: int = Field(alias="from")


@pytest.fixture
def seen(job_types: dict[str, Any]) -> Seen:
    """Declare a type that fails twice; return the payloads of its attempts."""
    payloads: Seen = []

    def report(payload: ReportPayload, ctx: Any) -> None:
        payloads.append(payload)
        if len(payloads) % 3:
            raise Retryable("not yet", retry_after=0)

    job(
        "test.report",
        category="export",
        payload=ReportPayload,
        version="2.0",
        upcasters={"1.0": lambda payload: payload},
        idempotency_key=lambda payload: str(payload.ticket),
    )(report)
    return payloads


def one(firm: Firm, payload: dict[str, Any]) -> UUID:
    return enqueue("test.report", payload, firm=firm).job_id


def one_of_many(firm: Firm, payload: dict[str, Any]) -> UUID:
    return enqueue_many([EnqueueSpec("test.report", payload)], firm=firm)[0].job_id


@pytest.mark.parametrize("add", [one, one_of_many])
def test_each_attempt_has_the_same(
    firm: Firm, seen: Seen, add: Callable[[Firm, dict[str, Any]], UUID]
) -> None:
    job_id = add(firm, {"name": "ada"})
    drain()
    assert len(seen) == 3
    assert len({(one.ticket, one.asked_at) for one in seen}) == 1
    stored = row(job_id)
    assert stored.payload.keys() - ENVELOPE == {"name", "ticket", "askedAt"}
    assert stored.idempotency_key == str(seen[0].ticket) == stored.payload["ticket"]


def test_each_job_has_its_own(firm: Firm, seen: Seen) -> None:
    tickets = {row(one(firm, {})).payload["ticket"] for _ in range(2)}
    assert len(tickets) == 2


def test_what_is_given_stays(firm: Firm, seen: Seen) -> None:
    given = {"ticket": str(uuid4()), "askedAt": "2026-11-27T12:00:00Z"}
    stored = row(one(firm, given)).payload
    assert {name: stored[name] for name in stored.keys() - ENVELOPE} == given


def test_a_payload_of_an_older_version_is_stored_as_it_is(firm: Firm, seen: Seen) -> None:
    stored = row(one(firm, {"version": "1.0", "name": "ada"})).payload
    assert stored.keys() - ENVELOPE == {"name"}


def test_a_part_is_stored_as_it_is_read(firm: Firm, job_types: dict[str, Any]) -> None:
    span = Field(default_factory=lambda: Span(**{"from": 7}), exclude=True)
    schema = create_model("SpanPayload", __base__=JobPayload, span=(Span, span))
    job("test.span", category="export", payload=schema)(lambda payload, ctx: payload.span.start)
    job_id = enqueue("test.span", firm=firm).job_id
    assert row(job_id).payload["span"] == {"from": 7}
    drain()
    assert row(job_id).result == 7


@pytest.mark.parametrize("kind", ["bytes of the schema", "bytes of the field"])
def test_a_value_is_stored_as_its_schema_writes_it(
    firm: Firm, job_types: dict[str, Any], kind: str
) -> None:
    class Based(JobPayload):
        if kind == "bytes of the schema":
            model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
            nonce: bytes = Field(default_factory=lambda: b"\xff\xfe")
        else:
            nonce: Base64Bytes = Field(default_factory=lambda: b"\xff\xfe")

    job("test.based", category="export", payload=Based)(lambda payload, ctx: payload.nonce.hex())
    job_id = enqueue("test.based", firm=firm).job_id
    drain()
    assert (row(job_id).last_error, row(job_id).result) == ("", "fffe")


@pytest.mark.parametrize(
    ("value", "kind"),
    [(SecretStr("1234"), "SecretStr"), (b"\xff", "bytes")],
    ids=["secret", "bytes"],
)
def test_what_cannot_be_stored_as_it_is_is_refused(
    firm: Firm, job_types: dict[str, Any], value: Any, kind: str
) -> None:
    made = Field(default_factory=lambda: value)
    schema = create_model("MadePayload", __base__=JobPayload, made=(type(value), made))
    job("test.made", category="export", payload=schema)(lambda payload, ctx: None)
    with pytest.raises(PayloadInvalid, match=f"made: {kind} is not JSON$"):
        enqueue("test.made", firm=firm)
