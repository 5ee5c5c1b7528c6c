"""Assertions about enqueued jobs, and the messages of those that fail."""

from __future__ import annotations

import pytest

from jobs.errors import UnknownJobType
from jobs.queue import enqueue
from jobs.testing import assert_enqueued, assert_not_enqueued, drain, enqueued
from tenants.models import Firm

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-27")]


def complaint(*arguments: str, **wanted: object) -> list[str]:
    """Return the lines of the error."""
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(*arguments, **wanted)  # type: ignore[arg-type]
    return str(caught.value).splitlines()


def test_by_type_payload_firm_and_column(firm: Firm, other_firm: Firm) -> None:
    enqueue("kit.add", {"name": "ada", "options": {"a": 1, "b": 2}}, firm=firm, priority=0)
    enqueue("kit.add", {"name": "bob"}, firm=other_firm)
    (ada,) = assert_enqueued("kit.add", payload={"name": "ada"})
    assert assert_enqueued("kit.add", firm=firm) == [ada]
    assert assert_enqueued(firm=firm.pk) == [ada]
    assert assert_enqueued("kit.add", priority=0) == [ada]
    assert assert_enqueued(payload={"options": {"b": 2}}) == [ada]
    assert len(assert_enqueued("kit.add", count=2)) == 2
    assert_not_enqueued("kit.add", payload={"name": "eve"})
    assert_not_enqueued("kit.write")
    assert [job.payload["name"] for job in enqueued("kit.add")] == ["ada", "bob"]
    assert enqueued(payload={"options": {"c": 3}}) == []


def test_whatever_became_of_it() -> None:
    enqueue("kit.add")
    drain()
    assert_enqueued("kit.add")
    assert_enqueued("kit.add", status="completed")
    with pytest.raises(AssertionError):
        assert_not_enqueued("kit.add")
    with pytest.raises(AssertionError):
        assert_enqueued("kit.add", status="pending")


def test_it_lists_what_there_is_the_nearest_first() -> None:
    enqueue("kit.write", {"name": "ada"})
    enqueue("kit.add", {"name": "bob"}, priority=0)
    enqueue("kit.add", {"name": "bob"})
    assert complaint("kit.add", payload={"name": "ada"}, priority=2) == [
        "expected 1 of: kit.add, payload {'name': 'ada'}, priority=2; found 0",
        "enqueued were 3, the nearest first:",
        "  kit.add (pending) {'name': 'bob'}",
        "      payload.name is 'bob', not 'ada'",
        "  kit.add (pending) {'name': 'bob'}",
        "      payload.name is 'bob', not 'ada'",
        "      priority is 0, not 2",
        "  kit.write (pending) {'name': 'ada'}",
        "      job_type is 'kit.write', not 'kit.add'",
    ]


def test_missing_fields_are_named() -> None:
    enqueue("kit.add", {"options": {"a": {"b": 1}}})
    lines = complaint("kit.add", payload={"options": {"a": {"b": 2, "c": 3}}, "else": 1})
    assert lines[-3:] == [
        "      payload.options.a.b is 1, not 2",
        "      payload.options.a.c is missing",
        "      payload.else is missing",
    ]


def test_too_many_are_as_wrong_as_too_few() -> None:
    enqueue("kit.add")
    enqueue("kit.add")
    assert complaint("kit.add")[0] == "expected 1 of: kit.add; found 2"
    assert complaint("kit.add", count=3)[0] == "expected 3 of: kit.add; found 2"


def test_an_empty_queue_says_so() -> None:
    assert complaint("kit.add") == ["expected 1 of: kit.add; found 0", "nothing was enqueued"]


def test_a_long_list_is_cut() -> None:
    for _ in range(30):
        enqueue("kit.add")
    assert len(complaint("kit.write")) == 2 + 2 * 20


def test_slips_of_the_pen_are_found() -> None:
    with pytest.raises(UnknownJobType, match=r"did you mean kit\.add"):
        assert_not_enqueued("kit.ad")
    with pytest.raises(TypeError, match="no column prioriti"):
        assert_not_enqueued("kit.add", prioriti=1)
