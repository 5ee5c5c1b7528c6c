"""Values that are passed to PostgreSQL as a table of rows arrive unchanged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.states import Priority
from tests.support.databases import postgresql_only

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("J-08", "W-02"),
    postgresql_only,
]

VALUES: dict[Column, st.SearchStrategy[Any]] = {
    Column.UUID: st.uuids(),
    Column.BIGINT: st.integers(-(2**63), 2**63 - 1),
    Column.INTEGER: st.integers(-(2**31), 2**31 - 1),
    Column.FLOAT: st.floats(allow_nan=False),
    Column.TEXT: st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    Column.BOOLEAN: st.booleans(),
    Column.TIME: st.datetimes(timezones=st.just(UTC)),
}


def arrived(column: Column, values: list[Any]) -> list[Any]:
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"one": column}, [(value,) for value in values])
    with dialect.prepared_cursor() as cursor:
        cursor.execute(f"SELECT r.one FROM {rows}", params)
        return [one for (one,) in cursor.fetchall()]


def test_every_column_has_a_case() -> None:
    assert VALUES.keys() == set(Column)


@pytest.mark.parametrize("column", list(Column), ids=lambda column: column.name)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_values_arrive_in_their_order_nulls_among_them(column: Column, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[column], max_size=6))
    assert arrived(column, values) == values


def test_a_time_of_another_zone_is_the_same_moment() -> None:
    noon = datetime.fromisoformat("2026-03-29T12:00:00.000001+05:30")
    (moment,) = arrived(Column.TIME, [noon])
    assert moment == noon
    assert moment.utcoffset() == timedelta(0)


def test_numbers_of_mixed_types_are_one_column() -> None:
    assert arrived(Column.INTEGER, [Priority.NORMAL, 70_000]) == [Priority.NORMAL, 70_000]
    assert arrived(Column.FLOAT, [0, 1.5]) == [0.0, 1.5]


def test_a_text_with_a_lone_surrogate_is_refused_here() -> None:
    with pytest.raises(UnicodeEncodeError):
        arrived(Column.TEXT, ["\ud800"])


def test_a_thousand_values() -> None:
    ids = [UUID(int=number) for number in range(1000)]
    assert arrived(Column.UUID, ids) == ids
