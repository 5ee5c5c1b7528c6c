"""The errors: their class tree, and what each message says."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

import jobs.errors
import tenants.errors
from jobs.errors import EnqueueError, Fault, PayloadInvalid, Retryable, Snooze, UnknownJobType


def tree_in(text: str) -> list[tuple[str, str | None]]:
    """Read the drawing of a class tree: (class, its parent), by indentation."""
    drawn: list[tuple[str, str | None]] = []
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        words = line.split()
        if not words or not words[0].endswith(("Error", *OTHER_ENDINGS)) or ":" in words[0]:
            continue
        depth = len(line) - len(line.lstrip())
        above = [(other, name) for other, name in above if other < depth]
        if depth or len(words) == 1:
            drawn.append((words[0], above[-1][1] if above else None))
            above.append((depth, words[0]))
    return drawn


OTHER_ENDINGS = tuple(
    name
    for module in (jobs.errors, tenants.errors)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Exception)
)


@pytest.mark.req("J-11")
@pytest.mark.parametrize("module", [jobs.errors, tenants.errors])
def test_the_tree_of_errors_is_drawn_as_it_is(module):
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Exception)
        and value.__module__ == module.__name__
    ]
    drawn = dict(tree_in(module.__doc__))
    root = classes[0]
    assert drawn == {
        kind.__name__: None if kind is root else kind.__bases__[0].__name__ for kind in classes
    }
    codes = [kind.code for kind in classes]
    assert len(set(codes)) == len(codes)


@pytest.mark.req("J-03")
def test_a_refused_payload_lists_its_faults():
    error = PayloadInvalid("greet", [Fault("name", "missing", "Field required")])
    assert isinstance(error, EnqueueError)
    assert error.errors == [{"field": "name", "code": "missing", "message": "Field required"}]
    assert str(error) == "greet refused: name: Field required"


@pytest.mark.req("J-12")
def test_an_unknown_type_is_named_and_similar_ones_suggested():
    error = UnknownJobType("gret", ["greet", "great"])
    assert error.errors[0]["field"] == "job_type"
    assert error.errors[0]["code"] == "unknown_type"
    assert "No handler registered for job_type: gret; did you mean greet or great?" in str(error)


@pytest.mark.req("J-11")
def test_a_snooze_takes_one_aware_time_or_one_wait():
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert Snooze(until=moment).until == moment
    assert Snooze(seconds=5).seconds == 5
    with pytest.raises(ValueError, match="either"):
        Snooze()
    with pytest.raises(ValueError, match="either"):
        Snooze(until=moment, seconds=5)
    with pytest.raises(ValueError, match="aware"):
        Snooze(until=moment.replace(tzinfo=None))


@pytest.mark.req("J-11", "W-04")
@pytest.mark.parametrize("year", [1, 206, 1969, 9001])
def test_a_snooze_ends_in_a_year_that_the_databases_have(year: int):
    with pytest.raises(ValueError, match="year from 1970 to 9000"):
        Snooze(until=datetime(year, 1, 1, tzinfo=UTC))


@pytest.mark.req("J-11")
def test_a_retry_needs_no_message():
    assert Retryable(retry_after=5).retry_after == 5
    assert str(Retryable()) == ""


@pytest.mark.req("J-10", "J-11")
@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_wait_is_a_number_the_database_can_add(seconds: float):
    with pytest.raises(ValueError, match="retry_after"):
        Retryable("busy", retry_after=seconds)
    with pytest.raises(ValueError, match="seconds"):
        Snooze(seconds=seconds)


@pytest.mark.req("J-10", "J-11")
@pytest.mark.parametrize(
    "wrong", ["5", True, False, timedelta(minutes=5), datetime(2030, 1, 1, tzinfo=UTC)]
)
def test_a_wait_that_is_no_number_is_refused_by_name(wrong: object):
    kind = type(wrong).__name__
    with pytest.raises(TypeError, match=f"^retry_after must be a number of seconds, not {kind}$"):
        Retryable("busy", retry_after=wrong)  # type: ignore[arg-type]  # the wrong type is tested
    with pytest.raises(TypeError, match=f"^seconds must be a number of seconds, not {kind}$"):
        Snooze(seconds=wrong)  # type: ignore[arg-type]  # the wrong type is tested
    with pytest.raises(ValueError, match=r"^retry_after must be a number of at most "):
        Retryable("busy", retry_after=Decimal("NaN"))  # type: ignore[arg-type]  # that, too


@pytest.mark.req("J-11")
@pytest.mark.parametrize("wrong", ["2030-01-01T00:00:00Z", date(2030, 1, 1), 5])
def test_a_snooze_until_what_is_no_time_is_refused_by_name(wrong: object):
    refused = rf"^Snooze\(until=\) takes an aware datetime, not {type(wrong).__name__}$"
    with pytest.raises(TypeError, match=refused):
        Snooze(until=wrong)  # type: ignore[arg-type]  # the wrong type is tested


@pytest.mark.req("J-11")
def test_values_cannot_be_changed():
    fault = Fault("name", "missing", "Field required")
    with pytest.raises(dataclasses.FrozenInstanceError):
        fault.code = "other"  # type: ignore[misc]  # the assignment is tested
