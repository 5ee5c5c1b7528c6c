"""Whatever JSON is given as a payload, it is refused in one way, or both databases can store it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.errors import PayloadInvalid
from jobs.payload_validator import JobPayload, parse_payload, read_payload
from jobs.queue import enqueue
from jobs.registry import job
from tests.queue_kit import row

FIRM = 7


class AnyPayload(JobPayload):
    data: Any = None


@pytest.fixture
def any_type(job_types) -> None:
    @job(
        "test.any",
        category="sync",
        payload=AnyPayload,
        version="2.0",
        upcasters={"1.0": lambda old: {**old, "data": old["data"]["old"]}},
    )
    def handle(payload: AnyPayload, ctx: Any) -> None:
        pass


# These go beyond JSON on purpose: NaN, NUL, lone surrogates, huge integers, other types.
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**1100), 2**1100)
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=4)
    | st.datetimes()
    | st.uuids()
    | st.decimals()
)
keys = st.text(st.characters(), max_size=8) | st.sampled_from(["token", "Password", "a.b", ""])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys | st.integers(0, 3), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=12,
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "tenant_id": st.just(FIRM) | scalars,
        "version": st.sampled_from(["1.0", "2.0", "9.9", ""]) | scalars,
        "correlation_id": st.just("abc") | scalars,
        "data": values,
    },
)


def gate(read: Callable[[], JobPayload]) -> tuple[JobPayload | None, list[dict[str, str]]]:
    """Return the payload, or the faults with which it was refused; any other error is raised."""
    try:
        return read(), []
    except PayloadInvalid as refusal:
        return None, refusal.errors


@pytest.mark.req("J-03")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(envelopes | values)
def test_anything_is_read_or_refused_and_nothing_else(any_type, job_types, payload: Any):
    declared = job_types["test.any"]
    model, errors = gate(lambda: read_payload(declared, payload, FIRM)[1])
    assert isinstance(model, AnyPayload) or errors
    assert model is None or model.tenant_id == FIRM


@pytest.mark.req("J-03", "J-12")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.text() | st.text(alphabet='{}[]",:0123456789eE+-.\\u tenant_idversion', max_size=60))
def test_any_stored_text_is_read_or_refused(any_type, job_types, text: str):
    model, errors = gate(lambda: parse_payload(job_types["test.any"], text, FIRM))
    assert isinstance(model, AnyPayload) or errors


def same(stored: Any, given: Any) -> bool:
    """Compare as JSON does, because a database may write a number differently."""
    if isinstance(given, dict):
        return stored.keys() == given.keys() and all(same(stored[k], given[k]) for k in given)
    if isinstance(given, list | tuple):
        return len(stored) == len(given) and all(map(same, stored, given))
    if isinstance(given, float):
        return bool(stored == pytest.approx(given, rel=1e-12, abs=1e-300))
    return bool(stored == given)


plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**1023), 2**1023)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
documents = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.req("J-03", "E-03")
@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(documents)
def test_what_is_accepted_is_stored_and_comes_back(any_type, firm, document: Any):
    with transaction.atomic():
        try:
            result = enqueue("test.any", {"data": document}, firm=firm)
        except PayloadInvalid:
            return
        stored = row(result.job_id).payload["data"]
        assert same(stored, document), connection.vendor
