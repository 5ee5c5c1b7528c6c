"""An error other than ValueError of a schema's own validator is a refusal that names the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import OperationalError
from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator
from pydantic import model_validator as whole_model

from jobs.errors import Fault, PayloadInvalid, Retryable
from jobs.payload_validator import validate_payload
from jobs.registry import JobPayload, job

if TYPE_CHECKING:
    from datetime import date

pytestmark = pytest.mark.req("J-03")
ENVELOPE = {"tenant_id": 7, "version": "1.0", "correlation_id": "abc"}
RATES = {"EUR": 1}


def email(value: str) -> str:
    validate_email(value)
    return value


class Line(BaseModel):
    currency: Annotated[str, AfterValidator(lambda code: RATES[code] and code)] = "EUR"


class OrderPayload(JobPayload):
    start: int = 0
    end: int = 0
    mail: Annotated[str, AfterValidator(email)] = "a@b.example"
    lines: list[Line] = []
    first: Line = Field(default_factory=Line, validation_alias="firstLine")
    ratio: int = 1

    @field_validator("end")
    @classmethod
    def after_start(cls, end: int, info: ValidationInfo) -> int:
        return max(end, info.data["start"])

    @whole_model(mode="after")
    def share(self) -> OrderPayload:
        assert 100 / self.ratio
        return self


@pytest.fixture(autouse=True)
def order(job_types: Any) -> None:
    job("test.order", category="sync", payload=OrderPayload)(lambda payload, ctx: None)


def refusal(fields: dict[str, Any]) -> PayloadInvalid:
    with pytest.raises(PayloadInvalid) as refused:
        validate_payload("test.order", {**ENVELOPE, **fields}, firm=7)
    return refused.value


@pytest.mark.parametrize(
    ("fields", "field", "error"),
    [
        ({"lines": [{"currency": "EUR"}, {"currency": "Ada"}]}, "lines", "KeyError"),
        ({"firstLine": {"currency": "Ada"}, "ratio": 2}, "firstLine", "KeyError"),
        ({"start": 3, "ratio": 0}, "payload", "ZeroDivisionError"),
    ],
)
def test_the_fault_names_the_field_and_the_error_not_the_value(
    fields: dict[str, Any], field: str, error: str
) -> None:
    refused = refusal(fields)
    message = f"its validator raised {error}"
    assert refused.faults == [Fault(field, "function_failed", message)]
    assert type(refused.__cause__).__name__ == error


def test_a_validator_of_the_raw_payload_is_of_no_field(job_types: Any) -> None:
    class RawPayload(OrderPayload):
        @whole_model(mode="before")
        @classmethod
        def with_end(cls, payload: dict[str, Any]) -> dict[str, Any]:
            return {**payload, "end": payload["start"] // payload["ratio"]}

    job("test.raw", category="sync", payload=RawPayload)(lambda payload, ctx: None)
    with pytest.raises(PayloadInvalid) as refused:
        validate_payload("test.raw", {**ENVELOPE, "start": 1, "ratio": 0}, firm=7)
    message = "its validator raised ZeroDivisionError"
    assert refused.value.faults == [Fault("payload", "function_failed", message)]


def test_django_s_own_validators_say_what_is_wrong() -> None:
    refused = refusal({"mail": "Ada"})
    assert refused.faults == [Fault("mail", "value_error", "Enter a valid email address.")]
    assert isinstance(refused.__cause__, ValidationError)


def test_a_validator_that_misses_a_field_with_a_fault_does_not_hide_it() -> None:
    found = {(one.field, one.code) for one in refusal({"start": "soon", "end": 3}).faults}
    assert found == {("start", "wrong_type"), ("end", "function_failed")}


def test_other_faults_are_told_beside_it() -> None:
    found = {(one.field, one.code) for one in refusal({"mail": "Ada", "token": "x"}).faults}
    assert found == {("token", "secret_key"), ("mail", "value_error")}


@pytest.mark.parametrize("error", [OperationalError("gone"), ConnectionError(), Retryable("later")])
def test_what_says_nothing_of_the_payload_stays_as_it_is(
    monkeypatch: Any, error: Exception
) -> None:
    asked: list[str] = []

    class Rates(dict[str, int]):
        def __getitem__(self, code: str) -> int:
            asked.append(code)
            raise error

    monkeypatch.setitem(globals(), "RATES", Rates())
    with pytest.raises(type(error)) as raised:
        validate_payload("test.order", {**ENVELOPE, "lines": [{"currency": "EUR"}]}, firm=7)
    assert raised.value is error
    # The function is called once only: its error may have ended the transaction, and then the error
    # of a second call would hide it.
    assert asked == ["EUR"]


def test_a_schema_whose_annotations_are_unknown_says_which(job_types: Any) -> None:
    class DuePayload(JobPayload):
        due: date

    job("test.due", category="sync", payload=DuePayload)(lambda payload, ctx: None)
    with pytest.raises(PayloadInvalid) as refused:
        validate_payload("test.due", {**ENVELOPE, "due": "2026-03-01"}, firm=7)
    message = (
        "`DuePayload` is not fully defined; you should define `date`:"
        " import it in the payload's module, not under TYPE_CHECKING alone"
    )
    assert refused.value.faults == [Fault("payload", "schema_incomplete", message)]
