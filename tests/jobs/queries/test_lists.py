"""Ids as times, ids by how they begin, cursors, and durations in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uuid_utils.compat import uuid7

from jobs.models.base import id_at
from jobs.queries.durations import in_words, since_in_words
from jobs.queries.filters import id_range
from jobs.queries.lists import CursorInvalid, get_page, job_rows
from tenants.scope import all_firms

MOMENTS = st.integers(0, 7_000_000_000_000).map(
    lambda milliseconds: datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
)


@given(MOMENTS, MOMENTS)
def test_ids_of_moments_sort_as_the_moments_do(one: datetime, other: datetime) -> None:
    if one <= other:
        assert id_at(one) <= id_at(other)
    else:
        assert id_at(one) >= id_at(other)


def test_a_fresh_id_lies_behind_the_id_of_the_minute_before() -> None:
    assert id_at(datetime.now(UTC) - timedelta(minutes=1)) < UUID(str(uuid7()))


@given(st.uuids(), st.integers(1, 36))
def test_an_id_lies_in_the_range_of_each_of_its_beginnings(value: UUID, length: int) -> None:
    span = id_range(str(value)[:length])
    assert span is not None
    assert span[0] <= value <= span[1]


@given(st.text(max_size=40))
def test_any_text_is_a_beginning_or_none(text: str) -> None:
    span = id_range(text)
    assert span is None or span[0] <= span[1]


@pytest.mark.django_db
@pytest.mark.parametrize("cursor", ["", "x", "e30", "MQ", "!!!", "é", "A" * 5000, "\x00"])
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    with all_firms("test"), pytest.raises(CursorInvalid):
        get_page(job_rows(), limit=1, cursor=cursor)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.0004, "1 ms"),
        (0.25, "250 ms"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3600 * 5, "5 h"),
        (86400 * 3, "3 d"),
        (-61, "-1 min"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_moments_in_words() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert since_in_words(now, now) == "just now"
    assert since_in_words(now - timedelta(minutes=3), now) == "3 min ago"
    assert since_in_words(now + timedelta(hours=2), now) == "in 2 h"
