"""The engine's statements are never compiled (JIT): that takes longer than a claim of 500 jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine.outcomes import Completed
from jobs.engine.pending_work import read_pending_work
from tests.queue_kit import finish, take
from tests.support.databases import postgresql_only

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("J-08", "W-02"),
    postgresql_only,
]

Add = Callable[..., Any]


@pytest.mark.parametrize(
    ("does", "table"),
    [
        (lambda: take(1), "UPDATE jobs_jobqueue"),
        (read_pending_work, "jobs_jobqueue"),
        (lambda: finish(take(1)[0], Completed(None)), "status = 'completed'"),
    ],
    ids=["claim", "pending work", "settle"],
)
def test_what_runs_all_the_time_is_not_compiled(
    add: Add, does: Callable[[], object], table: str
) -> None:
    add()
    with connection.cursor() as cursor:
        cursor.execute("SET jit = on")
    try:
        with CaptureQueriesContext(connection) as captured:
            does()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET jit")
    statements = [query["sql"] for query in captured.captured_queries]
    written = next(at for at, sql in enumerate(statements) if table in sql)
    assert "set_config('jit', 'off', true)" in statements[written - 1]
