"""PostgreSQL finds the columns that an UPDATE of a job compares without reading others."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.queue_kit import table_rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-08")]

FIXED = """
    SELECT a.attname, a.attnum FROM pg_attribute a
    WHERE a.attrelid = 'jobs_jobqueue'::regclass AND a.attnum > 0 AND NOT a.attisdropped
      AND a.attnotnull AND a.attlen > 0
    ORDER BY a.attnum
"""
INDEXED = """
    SELECT DISTINCT a.attname FROM pg_index i
    JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
      AND d.refclassid = 'pg_class'::regclass AND d.refobjid = i.indrelid
    JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
    WHERE i.indrelid = 'jobs_jobqueue'::regclass AND d.refobjsubid > 0
"""


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite reads its rows otherwise")
def test_columns_of_fixed_length_that_are_in_an_index_come_before_all_others() -> None:
    places = dict(table_rows(FIXED))
    indexed = places.keys() & {name for (name,) in table_rows(INDEXED)}
    assert {"job_id", "firm_id", "scheduled_at", "priority", "ready", "waiting"} <= indexed
    before = {place for place in places.values() if place <= max(map(places.get, indexed))}
    # A column of variable length, or one that may be null, would make the columns behind it slower.
    assert before == set(range(1, len(before) + 1))
