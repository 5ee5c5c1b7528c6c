"""`greet.enqueue(name=…)`: what the typed calls of a declared function store."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, computed_field

from jobs.errors import PayloadInvalid
from jobs.queue import enqueue_many
from jobs.registry import JobHandler, JobPayload, JobType, job
from jobs.testing import assert_enqueued, assert_not_enqueued, drain
from tenants.models import Firm
from tests.support.nesting import nested
from tests.support.paths import ROOT

pytestmark = pytest.mark.req("J-05", "J-06")


class Line(BaseModel):
    """A part of a payload."""

    amount: Decimal


class Pair(BaseModel):
    """A part that takes nothing but its fields, and computes a value."""

    model_config = ConfigDict(extra="forbid")
    first: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def second(self) -> int:
        return self.first + 1


@dataclass
class Card:
    """A part that hides a value."""

    pin: SecretStr


class OrderPayload(JobPayload):
    """Fields of every kind."""

    number: int
    on: date | None = None
    ref: UUID | None = None
    lines: list[Line] = []
    pair: Pair | None = None
    pin: SecretStr | None = None
    cards: list[Card] = []


@pytest.fixture
def order(job_types: dict[str, JobType]) -> JobHandler[..., OrderPayload, dict[str, Any]]:
    """Return a declared handler."""

    @job("test.order", category="sync", payload=OrderPayload, priority=3)
    def order(payload: OrderPayload, ctx: Any) -> dict[str, Any]:
        return {"number": payload.number, "on": payload.on, "lines": len(payload.lines)}

    return order


@pytest.mark.django_db
def test_the_fields_are_keywords(firm: Firm, order: Any) -> None:
    day, ref = date(2026, 3, 1), UUID(int=7)
    result = order.enqueue(number=7, on=day, ref=ref, lines=[Line(amount=Decimal("1.10"))])
    assert result.created
    fields = {"on": "2026-03-01", "ref": str(ref), "lines": [{"amount": "1.10"}]}
    assert_enqueued("test.order", payload={"number": 7, **fields}, priority=3, firm=firm)
    (done,) = drain().jobs
    assert done.result == {"number": 7, "on": "2026-03-01", "lines": 1}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"number": object()}, "number: object is not JSON"),
        ({"number": 1, "lines": [{"amount": object()}]}, "lines[0].amount: object is not JSON"),
        ({"number": b"\xff", "on": date(2026, 3, 1)}, "number: bytes is not JSON"),
        (
            {"number": b"\xff", "lines": [Line(amount=Decimal(1))]},
            "refused: number: bytes is not JSON",
        ),
        ({"number": {object: 1}}, "keys must be strings"),
        ({"number": nested(1000)}, "nested over 32 levels"),
    ],
    ids=["object", "inside", "bytes", "beside a model", "key", "deep"],
)
def test_what_is_no_json_is_refused_with_its_place(
    firm: Firm, order: Any, fields: Any, fault: str
) -> None:
    with pytest.raises(PayloadInvalid, match=f"{re.escape(fault)}$"):
        order.enqueue(**fields)
    with pytest.raises(PayloadInvalid, match=f"{re.escape(fault)}$"):
        enqueue_many([order.spec(**fields)], firm=firm)
    assert_not_enqueued("test.order")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "fields",
    [{"pin": SecretStr("1234")}, {"cards": [{"pin": SecretStr("1234")}]}],
)
def test_a_secret_is_refused_because_it_would_be_stored_as_asterisks(
    firm: Firm, order: Any, fields: Any
) -> None:
    with pytest.raises(PayloadInvalid, match=r"pin: SecretStr is not JSON$"):
        order.enqueue(number=7, **fields)
    with pytest.raises(PayloadInvalid, match=r"cards\[0\]: Card is not JSON$"):
        order.enqueue(number=7, cards=[Card(SecretStr("1234"))])
    assert_not_enqueued("test.order")


@pytest.mark.django_db
def test_what_a_model_computes_is_left_out(firm: Firm, order: Any) -> None:
    order.enqueue(number=7, pair=Pair(first=1))
    (job,) = assert_enqueued("test.order")
    assert job.payload["pair"] == {"first": 1}


@pytest.mark.django_db
def test_options_come_before_the_fields(firm: Firm, other_firm: Firm, order: Any) -> None:
    urgent = order.using(priority=0, delay=timedelta(hours=1), firm=firm)
    urgent.using(idempotency_key="one").enqueue(number=1)
    async_to_sync(urgent.aenqueue)(number=2)
    assert_enqueued("test.order", payload={"number": 1}, priority=0, idempotency_key="one")
    assert_enqueued("test.order", payload={"number": 2}, priority=0, idempotency_key=None)
    spec = order.using(lock_key="orders").spec(number=3)
    enqueue_many([spec, order.spec(number=4)], firm=other_firm)
    assert_enqueued("test.order", payload={"number": 3}, lock_key="orders", firm=other_firm)
    with pytest.raises(TypeError, match="leave it out"):
        urgent.spec(number=5)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "field"),
    [({}, "number"), ({"number": "7"}, "number"), ({"number": 7, "nr": 1}, "nr")],
)
def test_what_the_schema_refuses(firm: Firm, order: Any, fields: Any, field: str) -> None:
    with pytest.raises(PayloadInvalid) as refused:
        order.enqueue(**fields)
    assert [fault["field"] for fault in refused.value.errors] == [field]
    with pytest.raises(TypeError, match=r"fields by name: enqueue\(name="):
        order.enqueue(7)
    assert_not_enqueued("test.order")


def test_a_test_builds_a_payload_without_the_envelope(order: Any) -> None:
    payload = OrderPayload(number=7)
    assert order(payload, None) == {"number": 7, "on": None, "lines": 0}
    with pytest.raises(ValidationError, match="nr"):
        OrderPayload(number=7, nr=8)


@pytest.mark.req("J-03")
def test_a_stored_payload_must_have_the_envelope() -> None:
    for read in (
        lambda: OrderPayload.model_validate({"number": 7}),
        lambda: OrderPayload.model_validate_json('{"number": 7}'),
    ):
        with pytest.raises(ValidationError) as refused:
            read()
        assert [str(error["loc"][0]) for error in refused.value.errors()] == [
            "tenant_id", "version", "correlation_id",
        ]  # fmt: skip


def test_the_type_checker_reads_the_planted_mistakes() -> None:
    """Mypy must find each mistake, because it reports an ignore that ignores nothing."""
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    assert mypy["strict"]
    assert "tests.typed" in mypy["packages"]
    planted = (ROOT / "tests" / "typed" / "calls.py").read_text(encoding="utf-8")
    assert len(re.findall(r"# type: ignore\[", planted)) >= 12
