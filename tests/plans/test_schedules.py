"""The search for due schedules uses an index, however many schedules there are."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from jobs.engine.transactions import in_transaction
from jobs.models import Schedule
from jobs.schedules.tick import lock_due
from tenants.models import Firm
from tenants.scope import all_firms
from tests.jobs.schedules.kit import START
from tests.queue_kit import table_rows
from tests.support.plans import nodes

pytestmark = [pytest.mark.django_db, pytest.mark.req("S-01")]

RESTING = 3_000


@pytest.fixture
def statement(firm: Firm, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[object]]:
    """Return the statement that looks for due schedules, and its parameters, among many not due."""
    far = START.replace(year=2090)
    rows = [
        Schedule(
            firm=firm,
            name=f"number {number}",
            job_type="noop",
            interval_seconds=60,
            enabled=number % 10 > 0,
            next_run_at=START if number % 10 == 0 else far,
        )
        for number in range(RESTING)
    ]
    with all_firms("test"):
        Schedule.objects.bulk_create(rows)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_schedule")
    seen: list[tuple[str, list[object]]] = []

    def record(execute, sql, params, many, context):  # type: ignore[no-untyped-def]  # Django's own signature
        if "FROM jobs_schedule s" in sql:
            seen.append((sql, list(params)))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        assert in_transaction(lambda: lock_due(["noop", "purge_jobs"], 20)) == []
    return seen[0]


def test_an_index_leads_to_what_is_due(statement: tuple[str, list[object]]) -> None:
    sql, params = statement
    if connection.vendor == "postgresql":
        (plan,) = table_rows(f"EXPLAIN (FORMAT JSON) {sql}", params)[0]
        found = json.loads(plan) if isinstance(plan, str) else plan
        used = {node.get("Index Name") for node in nodes(found[0]["Plan"])}
        assert "schedule_due" in used
        return
    plan_text = " ".join(row[3] for row in table_rows(f"EXPLAIN QUERY PLAN {sql}", params))
    assert "INDEX schedule_due" in plan_text
    assert "TEMP B-TREE" not in plan_text
