"""Times that are stored can be read, compared and claimed; other times are refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engine.clock import database_now
from jobs.engine.dialects import Column
from jobs.engine.dialects.sqlite import SqliteDialect
from jobs.errors import EditInvalid, LimitInvalid, PayloadInvalid
from jobs.models import JobQueue, Pause
from jobs.queue import edit, enqueue, pause
from tenants.models import Firm
from tests.jobs.engine.conftest import Add
from tests.queue_kit import row, rows, take

pytestmark = pytest.mark.django_db(transaction=True)

OUT_OF_RANGE = {
    "the first of all": datetime.min.replace(tzinfo=UTC),
    "a mistyped year": datetime(206, 11, 25, tzinfo=UTC),
    "before 1970": datetime(1969, 12, 31, tzinfo=UTC),
    "after 9000": datetime(9001, 1, 1, tzinfo=UTC),
    "the last of all, in the west": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
}
out_of_range = pytest.mark.parametrize("moment", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE.keys())
BOUNDS = [
    datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=14))),
    datetime(9000, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-12))),
]
moments = st.datetimes(timezones=st.just(UTC))


@pytest.mark.req("E-03")
@given(moments, moments)
def test_the_texts_of_two_times_compare_as_the_times_do(one: datetime, other: datetime) -> None:
    dialect = SqliteDialect()
    texts = [dialect.value(Column.TIME, moment) for moment in (one, other)]
    assert (texts[0] < texts[1]) is (one < other)
    assert [dialect.read_time(text) for text in texts] == [one, other]
    assert dialect.time_literal(one) == f"'{texts[0]}'"


@pytest.mark.req("J-06", "W-04", "E-03")
@pytest.mark.parametrize("field", ["at", "expires_at"])
@out_of_range
def test_a_time_that_no_database_takes_is_refused(firm: Firm, field: str, moment: datetime) -> None:
    with pytest.raises(PayloadInvalid, match="year from 1970 to 9000") as refused:
        enqueue("test.work", firm=firm, **{field: moment})  # type: ignore[arg-type]
    assert [(one.field, one.code) for one in refused.value.faults] == [(field, "out_of_range")]
    assert rows(JobQueue) == []


@pytest.mark.req("J-06", "J-08", "E-03")
@pytest.mark.parametrize("moment", BOUNDS, ids=["first", "last"])
def test_the_first_and_the_last_time_that_are_taken_come_back_as_they_are(
    add: Add, moment: datetime
) -> None:
    assert row(add(at=moment)).scheduled_at == moment
    add()
    taken = {one.scheduled_at for one in take()}
    assert (moment in taken) is (moment < database_now())


@pytest.mark.req("J-06", "E-03")
@out_of_range
def test_a_waiting_job_keeps_its_time(add: Add, moment: datetime) -> None:
    job_id = add(delay=60)
    before = row(job_id).scheduled_at
    with pytest.raises(EditInvalid) as refused:
        edit(job_id, scheduled_at=moment)
    assert [one.code for one in refused.value.faults] == ["out_of_range"]
    assert row(job_id).scheduled_at == before


@pytest.mark.req("J-23", "E-03")
@out_of_range
def test_no_pause_ends_at_such_a_time(firm: Firm, moment: datetime) -> None:
    with pytest.raises(LimitInvalid) as refused:
        pause(firm=firm, reason="why", until=moment)
    assert [(one.field, one.code) for one in refused.value.faults] == [("until", "out_of_range")]
    assert rows(Pause) == []
