"""The validation that every payload has to pass."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import Field

from jobs.conf import PAYLOAD_MAX_BYTES, PAYLOAD_MAX_DEPTH
from jobs.errors import PayloadInvalid, UnknownJobType
from jobs.payload_validator import SECRET_KEYS, JobPayload, parse_payload, validate_payload
from jobs.registry import JobType, job
from tests.support.nesting import nested

FIRM = 7
ENVELOPE = {"tenant_id": FIRM, "version": "3.0", "correlation_id": "abc"}


class OrderPayload(JobPayload):
    name: str = "Ada"
    count: int = Field(default=1, ge=0)
    extra: Any = None


@pytest.fixture
def order(job_types) -> JobType:
    @job(
        "test.order",
        category="sync",
        payload=OrderPayload,
        version="3.0",
        upcasters={
            "1.0": lambda old: {"name": old.pop("who"), **old, "version": "2.0"},
            "2.0": lambda old: {**old, "count": old.get("count", 40) + 2},
        },
    )
    def handle(payload: OrderPayload, ctx: Any) -> None:
        pass

    return job_types["test.order"]


def faults(payload: Any, firm: int = FIRM) -> set[tuple[str, str]]:
    """Return (field, code) of each fault."""
    with pytest.raises(PayloadInvalid) as caught:
        validate_payload("test.order", payload, firm=firm)
    assert all(set(fault) == {"field", "code", "message"} for fault in caught.value.errors)
    assert all(fault["message"] for fault in caught.value.errors)
    return {(fault["field"], fault["code"]) for fault in caught.value.errors}


def with_extra(value: Any) -> dict[Any, Any]:
    return {**ENVELOPE, "extra": value}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in ENVELOPE.items() if key != name}


@pytest.mark.req("J-03")
def test_a_good_payload_becomes_the_types_model(order):
    payload = validate_payload("test.order", {**ENVELOPE, "count": 2}, firm=FIRM)
    assert isinstance(payload, OrderPayload)
    assert (payload.tenant_id, payload.correlation_id, payload.count) == (FIRM, "abc", 2)


RULES: list[tuple[str, Any, set[tuple[str, str]]]] = [
    ("not an object", [1], {("payload", "wrong_type")}),
    ("no tenant", without("tenant_id"), {("tenant_id", "missing")}),
    ("no version", without("version"), {("version", "missing")}),
    ("no correlation", without("correlation_id"), {("correlation_id", "missing")}),
    (
        "nothing at all",
        {},
        {("tenant_id", "missing"), ("version", "missing"), ("correlation_id", "missing")},
    ),
    ("tenant as text", {**ENVELOPE, "tenant_id": "7"}, {("tenant_id", "wrong_type")}),
    ("tenant as truth", {**ENVELOPE, "tenant_id": True}, {("tenant_id", "wrong_type")}),
    ("tenant null", {**ENVELOPE, "tenant_id": None}, {("tenant_id", "wrong_type")}),
    ("version as number", {**ENVELOPE, "version": 3.0}, {("version", "wrong_type")}),
    (
        "correlation as number",
        {**ENVELOPE, "correlation_id": 1},
        {("correlation_id", "wrong_type")},
    ),
    ("another firm", {**ENVELOPE, "tenant_id": 8}, {("tenant_id", "foreign_tenant")}),
    ("a newer version", {**ENVELOPE, "version": "4.0"}, {("version", "unknown_version")}),
    ("an unknown field", {**ENVELOPE, "nmae": "Ada"}, {("nmae", "unknown_field")}),
    ("a field of another type", {**ENVELOPE, "name": 5}, {("name", "wrong_type")}),
    ("a rule of the schema", {**ENVELOPE, "count": -1}, {("count", "greater_than_equal")}),
    ("NaN", with_extra([float("nan")]), {("extra[0]", "nan")}),
    ("infinity", with_extra({"a": float("-inf")}), {("extra.a", "nan")}),
    ("NUL in a value", with_extra("a\x00b"), {("extra", "nul")}),
    ("NUL in a key", with_extra({"a\x00": 1}), {("extra.a\N{REPLACEMENT CHARACTER}", "nul")}),
    ("half a character", with_extra("\ud800"), {("extra", "surrogate")}),
    ("a key that is half a character", with_extra({"\ud800": 1}), {("extra.?", "surrogate")}),
    ("a set", with_extra({1}), {("extra", "wrong_type")}),
    ("bytes", with_extra(b"x"), {("extra", "wrong_type")}),
    ("a key that is no text", with_extra({1: 2}), {("extra.1", "wrong_type")}),
    ("an endless integer", with_extra(10**400), {("extra", "number_too_large")}),
    ("too large", with_extra("x" * PAYLOAD_MAX_BYTES), {("payload", "too_large")}),
    ("a secret in a list", with_extra([{"token": "x"}]), {("extra[0].token", "secret_key")}),
]


@pytest.mark.req("J-03")
@pytest.mark.parametrize(
    ("payload", "expected"), [rule[1:] for rule in RULES], ids=[r[0] for r in RULES]
)
def test_each_rule_names_the_field_and_a_code(order, payload: Any, expected: set[tuple[str, str]]):
    assert faults(payload) == expected


@pytest.mark.req("J-03")
def test_every_fault_is_listed_at_once(order):
    assert faults({**ENVELOPE, "name": 5, "count": "x", "nmae": 1}) == {
        ("name", "wrong_type"),
        ("count", "wrong_type"),
        ("nmae", "unknown_field"),
    }


@pytest.mark.req("J-03")
def test_every_fault_is_listed_whichever_check_finds_it(order):
    wrong = {**ENVELOPE, "tenant_id": 8, "name": 5, "nmae": 1, "token": "x", "extra": float("nan")}
    found = {
        ("tenant_id", "foreign_tenant"),
        ("name", "wrong_type"),
        ("nmae", "unknown_field"),
        ("token", "secret_key"),
        ("extra", "nan"),
    }
    assert faults(wrong) == found
    wrong.pop("correlation_id")
    assert faults(wrong) == {*found, ("correlation_id", "missing")}
    # A value that JSON cannot hold hides the schema's faults, but no others.
    assert faults({**wrong, "extra": {1}}) == {
        ("tenant_id", "foreign_tenant"), ("token", "secret_key"), ("extra", "wrong_type"),
    }  # fmt: skip


@pytest.mark.req("J-03")
@pytest.mark.parametrize("name", sorted(SECRET_KEYS))
def test_secret_keys_are_refused_in_any_case_and_depth(order, name: str):
    assert faults({**ENVELOPE, name.upper(): "x"}) == {(name.upper(), "secret_key")}
    assert faults(with_extra({"a": [{name.title(): 1}]})) == {
        (f"extra.a[0].{name.title()}", "secret_key")
    }


@pytest.mark.req("J-03")
def test_the_secret_keys_are_exactly_these():
    assert {
        "password", "passwd", "secret", "client_secret", "token", "access_token", "refresh_token",
        "id_token", "api_key", "apikey", "authorization", "private_key", "cookie",
    } == SECRET_KEYS  # fmt: skip


@pytest.mark.req("J-03")
@pytest.mark.parametrize("name", ["tokens", "password_changed_at", "page_token", "secretary"])
def test_keys_that_merely_look_alike_pass(order, name: str):
    assert validate_payload("test.order", with_extra({name: 1}), firm=FIRM)


@pytest.mark.req("J-03")
def test_nesting_is_allowed_to_its_limit_and_no_further(order):
    # The payload itself is the first level.
    assert validate_payload("test.order", with_extra(nested(PAYLOAD_MAX_DEPTH - 1)), firm=FIRM)
    ((field, code),) = faults(with_extra(nested(PAYLOAD_MAX_DEPTH)))
    assert (field[:8], code) == ("extra[0]", "too_deep")


@pytest.mark.req("J-03")
def test_nesting_without_end_is_refused_like_any_other(order):
    ((_, code),) = faults(with_extra(nested(100_000)))
    assert code == "too_deep"


@pytest.mark.req("J-03")
def test_size_is_counted_in_bytes_of_the_whole_payload(order):
    frame = len(json.dumps(with_extra(""), separators=(",", ":")))
    room = PAYLOAD_MAX_BYTES - frame
    assert validate_payload("test.order", with_extra("x" * room), firm=FIRM)
    assert faults(with_extra("x" * (room + 1))) == {("payload", "too_large")}
    assert faults(with_extra("é" * (room // 2 + 1))) == {("payload", "too_large")}


@pytest.mark.req("J-03")
def test_no_value_is_repeated_in_the_message(order):
    with pytest.raises(PayloadInvalid) as caught:
        validate_payload("test.order", {**ENVELOPE, "name": ["hunter2"]}, firm=FIRM)
    assert "hunter2" not in str(caught.value)


@pytest.mark.req("J-03")
def test_the_list_of_faults_has_an_end(order):
    with pytest.raises(PayloadInvalid) as caught:
        validate_payload("test.order", with_extra([float("nan")] * 10_000), firm=FIRM)
    assert len(caught.value.errors) == 50


@pytest.mark.req("J-03", "J-12")
def test_an_unknown_type_is_refused_by_name():
    with pytest.raises(UnknownJobType) as caught:
        validate_payload("no.such.type", ENVELOPE, firm=FIRM)
    assert caught.value.errors[0]["field"] == "job_type"


@pytest.mark.req("J-04")
def test_old_payloads_are_brought_up_step_by_step(order):
    old = {**ENVELOPE, "version": "1.0", "who": "Grace"}
    payload = validate_payload("test.order", old, firm=FIRM)
    assert isinstance(payload, OrderPayload)
    assert (payload.version, payload.name, payload.count) == ("3.0", "Grace", 42)
    assert old["who"] == "Grace"


@pytest.mark.req("J-04")
def test_an_old_payload_that_its_upcaster_cannot_read_is_refused(order):
    assert faults({**ENVELOPE, "version": "1.0"}) == {("payload", "upcast_failed")}


@pytest.mark.req("J-04")
def test_upcasters_that_lead_round_in_a_circle_are_refused(job_types):
    @job(
        "test.circle",
        category="sync",
        payload=OrderPayload,
        version="3.0",
        upcasters={
            "1.0": lambda old: {**old, "version": "2.0"},
            "2.0": lambda old: {**old, "version": "1.0"},
        },
    )
    def handle(payload: OrderPayload, ctx: Any) -> None:
        pass

    with pytest.raises(PayloadInvalid) as caught:
        validate_payload("test.circle", {**ENVELOPE, "version": "1.0"}, firm=FIRM)
    assert caught.value.errors[0]["code"] == "unknown_version"


@pytest.mark.req("J-03", "J-12")
@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"', "[" * 100_000])
def test_stored_text_that_is_no_object_is_refused(order, text: str):
    with pytest.raises(PayloadInvalid) as caught:
        parse_payload(order, text, FIRM)
    assert caught.value.errors[0]["field"] == "payload"
